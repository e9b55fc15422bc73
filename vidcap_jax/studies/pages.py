"""The folder that a study of videos writes: pictures, a JSON file and one page with all of it."""

import base64
import pathlib
import re
from collections.abc import Iterable, Sequence

from vidcap_jax.files import write_json, write_text
from vidcap_jax.html_page import bullets, document, text

_STYLE = 'body { max-width: none; } img { max-width: 100%; }'


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
