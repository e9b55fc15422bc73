"""The folder that a study of videos writes: pictures, a JSON file and one page with all of it."""

import base64
import pathlib
import re
from collections.abc import Iterable, Sequence

from vidcap_jax.errors import UserError
from vidcap_jax.files import check_output, read_json, write_json, write_text
from vidcap_jax.html_page import bullets, document, text

_STYLE = 'body { max-width: none; } img { max-width: 100%; }'

_STUDIES = ('attention', 'key_frames', 'examples')  # whose results are NAME.json and index.html


def check_folder(output: str, name: str) -> None:
  """Checks that a study can write to --output; call it before the work starts.

  Args:
    output: the folder, which need not exist.
    name: of the study's JSON file, without suffix.

  Raises:
    UserError: the folder can't be written to, or holds results of another study.
  """
  check_output('--output', output, folder=True)
  folder = pathlib.Path(output)
  others = [f'{other}.json' for other in _STUDIES if other != name] + ['key.json']
  if not (folder / f'{name}.json').exists():
    others.append('index.html')  # another program wrote it
  if found := [other for other in others if (folder / other).exists()]:
    raise UserError(
      f'--output={output}: it holds results of another study ({found[0]}); give another folder'
    )
  _files_of(folder, name)


def prepare(output: pathlib.Path, name: str) -> None:
  """Creates the folder, or removes the files that an earlier run of the study lists in its JSON."""
  output.mkdir(parents=True, exist_ok=True)
  for path in _files_of(output, name):
    path.unlink(missing_ok=True)


def _files_of(output: pathlib.Path, name: str) -> list[pathlib.Path]:
  """Pictures and weights that NAME.json lists; none if there is no such file.

  Raises:
    UserError: the file is not of this study.
  """
  report = output / f'{name}.json'
  if not report.exists():
    return []
  try:
    entries = read_json(report)['videos']
    listed = [entry[key] for entry in entries for key in ('picture', 'weights') if key in entry]
    files = [output / pathlib.PurePath(file).name for file in listed]
  except (UserError, KeyError, TypeError):
    raise UserError(
      f'--output={output}: {report.name} is damaged or of another program; give another folder'
    ) from None
  return [path for path in files if path.suffix in ('.png', '.npz')]


def file_names(ids: Sequence[str]) -> list[str]:
  """A file name without suffix for each video; ids may have any characters."""
  digits = len(str(len(ids)))
  safe = [re.sub(r'[^A-Za-z0-9_-]', '_', video_id)[:60] for video_id in ids]
  return [f'{i:0{digits}}_{name}' for i, name in enumerate(safe)]


def section(
  heading: str, lines: Iterable[str], picture: pathlib.Path, references: Sequence[str] = ()
) -> str:
  """A video's part of a page.

  Args:
    heading, lines: texts.
    picture: a PNG file.
    references: captions of the video; none are shown if empty.
  """
  image = base64.b64encode(picture.read_bytes()).decode()
  return (
    f'<h2>{text(heading)}</h2>'
    + ''.join(f'<p>{text(line)}</p>' for line in lines)
    + f'<img alt="" src="data:image/png;base64,{image}">'
    + (f'<p class="small">References</p>{bullets(references)}' if references else '')
  )


def write(
  output: pathlib.Path, name: str, title: str, checkpoint: str, entries: list, body: Iterable[str]
) -> None:
  """Writes NAME.json and index.html.

  Args:
    output: the folder.
    name: of the JSON file, without suffix.
    title: of the page.
    checkpoint: that made the results.
    entries: of the videos, for the JSON file.
    body: of the page.
  """
  write_json(output / f'{name}.json', {'checkpoint': checkpoint, 'videos': entries}, False)
  write_text(output / 'index.html', document(title, [f'<h1>{text(title)}</h1>', *body], _STYLE))
