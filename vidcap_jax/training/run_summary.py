"""What a run logs at its end: results, how to go on, and of rendered clips scores and captions."""

import json
import os
from collections.abc import Callable, Mapping, Sequence

from etils import epath
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import checkpoint, restore
from vidcap_jax.data import provenance
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import stream_from_dict
from vidcap_jax.data.texts import read_texts
from vidcap_jax.distributed.mesh import is_main
from vidcap_jax.errors import UserError
from vidcap_jax.evaluation import metrics
from vidcap_jax.inference import captioning, inputs, predict
from vidcap_jax.inference.members import joint_provenance
from vidcap_jax.program_name import as_typed
from vidcap_jax.training.recipe import Recipe

METRICS = ('BLEU_4', 'METEOR', 'ROUGE_L', 'CIDEr')
SPLIT = 'test'


def log_recipe(
  config: ConfigDict,
  workdir: epath.Path,
  mesh: Mesh,
  recipe: Recipe,
  report: Mapping,
  log: Callable[[str], None],
) -> None:
  """Logs the scores of the rendered test split and captions of a few of its clips.

  Args:
    config: the run's.
    workdir: of the run; the clips are in WORKDIR/data.
    mesh: of all devices.
    recipe: that rendered them.
    report: the test split's metrics.json; without scores where another process wrote it.
    log: prints lines on process 0.
  """
  if is_main() and 'constant_caption' in report:
    log_scores(config, report, log)
  folder = workdir / 'data'
  files = recipe.clips(folder, SPLIT)[: config.data.recipe.show]
  log_clips(files, recipe.first_captions(folder), workdir, mesh, log)


def log_scores(config: ConfigDict, report: Mapping, log: Callable[[str], None]) -> None:
  """Logs the table of the scores of the test split beside those of the best constant caption.

  Args:
    config: the run's; ``data.dir`` is the folder of the rendered data set.
    report: the contents of the split's metrics.json.
    log: prints lines.
  """
  texts = read_texts(open_split(config.data.dir, SPLIT), config.data.threads)
  references = {video.video_id: list(video.captions) for video in texts}
  caption = report['constant_caption']
  constant, _ = metrics.score(dict.fromkeys(references, caption), references)
  log(score_table(report, constant))
  log(f'the best constant caption is {json.dumps(caption)} for every clip')


def score_table(report: Mapping[str, float], constant: Mapping[str, float]) -> str:
  """A row for each metric: the score, that of the best constant caption, and their ratio."""
  lines = [f'{"metric":8}  {"score":>6}  {"best constant caption":>21}  {"ratio":>6}']
  for name in METRICS:
    ratio = f'{report[name] / constant[name]:6.1f}' if constant[name] else f'{"-":>6}'
    lines.append(f'{name:8}  {report[name]:6.3f}  {constant[name]:21.3f}  {ratio}')
  return '\n'.join(lines)


def log_clips(
  files: Sequence[epath.PathLike],
  shown: Mapping[str, str],
  workdir: epath.Path,
  mesh: Mesh,
  log: Callable[[str], None],
) -> None:
  """Captions clips from their video files, and logs what they show beside their captions.

  Args:
    files: the clips.
    shown: a correct caption of each clip, by the name of its file without the suffix.
    workdir: of the run, whose checkpoint captions.
    mesh: of all devices.
    log: prints lines.

  Raises:
    UserError: a clip can't be read.
  """
  restored = restore.restore(restore.find_checkpoint(str(workdir)), mesh)
  found = inputs.find_inputs(joint_provenance([restored]), [os.fspath(file) for file in files])
  rows = [('clip', 'what it shows', "the model's caption")]
  for result in predict.caption_inputs(found, captioning.captioner_of(restored, predict.BATCH)):
    if result.caption is None:
      raise UserError(f'{result.source}: {result.error}')
    rows.append((f'{result.video_id}.mp4', shown[result.video_id], result.caption))
  widths = [max(len(row[column]) for row in rows) for column in range(2)]
  log('\n'.join(f'{a:{widths[0]}}  {b:{widths[1]}}  {c}' for a, b, c in rows))
  log(f'the clips are in {epath.Path(files[0]).parent}')


def next_steps(workdir: epath.Path, rendered: bool) -> str:
  """The lines at the end of a run: where the results are, and how to caption videos.

  Args:
    workdir: of the run.
    rendered: whether it was trained on rendered clips.
  """
  meta = checkpoint.read_meta(restore.find_checkpoint(str(workdir)))
  streams = [stream_from_dict(stream) for stream in meta['streams']]
  made = provenance.from_dict(meta.get('making', {}), streams)
  predict = as_typed('python -m vidcap_jax.main --mode=predict')
  line = (
    f'results are in {workdir / "eval"}; to caption videos: {predict} --checkpoint={workdir} '
    f'--inputs={inputs.example_of(made)}'
  )
  if rendered:
    line += (
      '\nnote: this model knows only rendered shapes; for your own clips see docs/data.md (data '
      'sets) and docs/video.md (features of video files)'
    )
  return line
