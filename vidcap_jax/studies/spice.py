r"""SPICE of captions and its parts by kind of word (Global2Local, Figure 7).

  vidcap studies spice --runs=runs/global,runs/g2l --split=test --spice=DIR \
      --json=FILE --plot=FILE.png

SPICE (Anderson et al. 2016) compares what a caption says, as objects, attributes and relations,
with what the references say. A score is the F-measure; those of its parts count only the objects,
relations, attributes, colours, counts or sizes. The program is written in Java and needs files that
are not in any wheel: ``--spice=DIR`` is a folder with spice-1.0.jar, and with lib/ for the jars it
uses, those of Stanford CoreNLP 3.6.0 included. It also needs a JavaScript engine, which Java has up
to version 14; for later ones put the jars of Nashorn into lib/.
"""

import argparse
import importlib.resources
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.counts import counted
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation.java import OPTIONS, MetricError, major_version, require_java, tail
from vidcap_jax.files import check_output, write_json
from vidcap_jax.program_name import program_name
from vidcap_jax.studies import run_captions
from vidcap_jax.studies.drawing import bars, check_plot, figure

JAR = 'spice-1.0.jar'
CORENLP = 'stanford-corenlp-3.6.0'
CORENLP_URL = 'http://nlp.stanford.edu/software/stanford-corenlp-full-2015-12-09.zip'
# Names in SPICE's output -> those shown here.
PARTS = {
  'All': 'SPICE',
  'Object': 'object',
  'Relation': 'relation',
  'Attribute': 'attribute',
  'Color': 'colour',
  'Cardinality': 'count',
  'Size': 'size',
}
_MAIN = 'edu.anu.spice.SpiceScorer'
_LAST_WITH_JAVASCRIPT = 14  # version of Java
MEMORY = '8G'
TIME_LIMIT = 3600.0


def check_folder(folder: str) -> pathlib.Path:
  """The path of SPICE's jar.

  Raises:
    UserError: the folder lacks a file, or Java is too new for it; lists what to get and where to
      put it.
    MetricError: Java is missing.
  """
  root = pathlib.Path(folder).absolute()
  needed = [root / JAR, *(root / 'lib' / f'{CORENLP}{end}.jar' for end in ('', '-models'))]
  if missing := [str(path) for path in needed if not path.is_file()]:
    shipped = importlib.resources.files('pycocoevalcap') / 'spice'
    raise UserError(
      f'--spice={folder}: SPICE needs {", ".join(missing)}; copy the folder {shipped} there, and '
      f'into its lib/ the two {CORENLP} jars of {CORENLP_URL}'
    )
  version = major_version(require_java())
  if (
    version and version > _LAST_WITH_JAVASCRIPT and not [*(root / 'lib').glob('nashorn-core*.jar')]
  ):
    raise UserError(
      f'--spice={folder}: SPICE writes its output with JavaScript, which Java {version} lacks; put '
      f'nashorn-core-15.4.jar and its asm jars into {root / "lib"}, or use Java '
      f'{_LAST_WITH_JAVASCRIPT} or older'
    )
  return needed[0]


def score(
  jar: pathlib.Path,
  captions: Mapping[str, str],
  references: Mapping[str, Sequence[str]],
  *,
  memory: str = MEMORY,
  time_limit: float = TIME_LIMIT,
) -> dict[str, dict[str, float | None]]:
  """Runs SPICE on one caption for each video.

  Args:
    jar: of ``check_folder``.
    captions: video id -> caption.
    references: video id -> captions.
    memory: of the Java program, as its option -Xmx.
    time_limit: seconds for the whole run.

  Returns:
    Video id -> the F-measure of each name of ``PARTS``; None where the references have no such
    words.

  Raises:
    MetricError: Java is missing, SPICE failed, ran over the time limit, or its output can't be
      read.
  """
  ids = list(captions)
  entries = [  # numbers for ids: SPICE does not promise to keep text as it is
    {'image_id': i, 'test': captions[video_id], 'refs': list(references[video_id])}
    for i, video_id in enumerate(ids)
  ]
  with tempfile.TemporaryDirectory() as folder:
    given, out = pathlib.Path(folder, 'captions.json'), pathlib.Path(folder, 'scores.json')
    given.write_text(json.dumps(entries))
    # Not -jar, which would leave out jars that the manifest does not name.
    classes = f'{jar}{os.pathsep}{jar.parent}/lib/*'
    command = [require_java(), *OPTIONS, f'-Xmx{memory}', '-cp', classes, _MAIN, str(given)]
    command += ['-out', str(out), '-subset', '-silent']
    try:
      done = subprocess.run(command, capture_output=True, timeout=time_limit, cwd=jar.parent)
    except subprocess.TimeoutExpired:
      raise MetricError(
        f'SPICE did not finish {counted(len(ids), "caption")} within {time_limit:.0f} s; give more '
        'with --time_limit=SECONDS'
      ) from None
    if done.returncode != 0 or not out.is_file():
      raise MetricError(f'SPICE failed (exit status {done.returncode}): {tail(done.stderr)}')
    return read_output(out.read_text(encoding='utf-8'), ids)


def read_output(text: str, ids: Sequence[str]) -> dict[str, dict[str, float | None]]:
  """The scores in SPICE's output file, a JSON list with an entry for each video.

  Args:
    text: the file's contents.
    ids: of the videos; entry ``image_id`` i is of ``ids[i]``.

  Returns:
    As of ``score``.

  Raises:
    MetricError: not of that form, or a video is missing or given twice.
  """
  scores: dict[str, dict[str, float | None]] = {}
  try:
    for entry in json.loads(text):
      video_id = ids[int(entry['image_id'])]
      if video_id in scores:
        raise MetricError(f'the output of SPICE has two entries of video {video_id!r}')
      parts = entry['scores']
      scores[video_id] = {name: _f_measure(parts[key]) for key, name in PARTS.items()}
  except (ValueError, KeyError, TypeError, IndexError) as error:
    if isinstance(error, MetricError):
      raise
    raise MetricError(
      f'the output of SPICE is not of the known form ({type(error).__name__}: {error}); '
      f'is {JAR} version 1.0?'
    ) from None
  if missing := [video_id for video_id in ids if video_id not in scores]:
    raise MetricError(
      f'the output of SPICE lacks {counted(len(missing), "video")}, first {missing[0]!r}'
    )
  return scores


def _f_measure(part: Mapping[str, Any]) -> float | None:
  """The F-measure of a part; SPICE writes null where it is not a number."""
  value = part['f']
  return None if value is None or math.isnan(float(value)) else float(value)


def means(scores: Mapping[str, Mapping[str, float | None]]) -> dict[str, dict[str, Any]]:
  """The mean of each part over the videos that have one, and their number."""
  result = {}
  for name in PARTS.values():
    values = [value for parts in scores.values() if (value := parts[name]) is not None]
    mean = sum(values) / len(values) if values else None
    result[name] = {'mean': mean, 'videos': len(values)}
  return result


def table(result: Mapping) -> str:
  """The means of every run, one line each."""
  runs = result['runs']
  width = max(len(label) for label in runs)
  lines = [' ' * width + ''.join(f'{name:>11}' for name in PARTS.values())]
  for label, run in runs.items():
    cells = [run['scores'][name]['mean'] for name in PARTS.values()]
    text = ''.join(f'{"-" if cell is None else f"{cell:.4f}":>11}' for cell in cells)
    lines.append(f'{label:<{width}}{text}')
  return '\n'.join(lines)


def plot(result: Mapping, path: str) -> None:
  """Draws a group of bars for each part, with a bar for each run.

  Raises:
    ModuleNotFoundError: matplotlib is not installed; says how to install it.
  """
  names = list(PARTS.values())
  picture = figure(figsize=(8, 3.6))
  panel = picture.subplots()
  heights = {
    label: [run['scores'][name]['mean'] for name in names] for label, run in result['runs'].items()
  }
  bars(panel, names, heights)
  panel.set(ylabel='F-measure', title=f'SPICE and its parts, {counted(result["videos"], "video")}')
  picture.savefig(path, dpi=150)


def measure(options: argparse.Namespace) -> dict:
  """The scores of all runs, as the command writes them."""
  jar = check_folder(options.spice)
  runs = run_captions.read(options.runs.split(','), options.split)
  references = run_captions.references_of(runs, options.references, options.split)
  limits = {'memory': options.memory, 'time_limit': options.time_limit}
  result: dict[str, Any] = {'split': options.split, 'videos': len(references), 'runs': {}}
  for run in runs:
    print(
      f'SPICE of {run.label}: {counted(len(references), "caption")}', file=sys.stderr, flush=True
    )
    by_video = score(jar, run.captions, references, **limits)
    entry = {'captions': str(run.path), 'scores': means(by_video), 'per_video': by_video}
    result['runs'][run.label] = entry
  return result


def make_parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.spice'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--runs', required=True, metavar='PATH,…', help=run_captions.HELP)
  add('--split', default='test', help='of the captions and references (default: %(default)s)')
  add('--references', metavar='PATH', help='file or data set (default: the data set evaluated on)')
  add('--spice', required=True, metavar='DIR', help=f'folder with {JAR} and lib/')
  add('--memory', default=MEMORY, help='of the Java program (default: %(default)s)')
  add(
    '--time_limit',
    type=float,
    default=TIME_LIMIT,
    metavar='SECONDS',
    help='for each run (default: %(default).0f)',
  )
  add('--json', metavar='FILE', help='write the scores there, those of every video included')
  add('--plot', metavar='FILE', help='draw bars there (.png, .pdf, .svg)')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  if options.json:
    check_output('--json', options.json)
  if options.plot:
    check_plot('--plot', options.plot)
  result = measure(options)
  print(table(result))
  if options.json:
    write_json(options.json, result, ensure_ascii=False)
  if options.plot:
    plot(result, options.plot)


if __name__ == '__main__':
  main()
