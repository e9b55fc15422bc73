"""Pictures of a run, drawn at its end: learning curves, and a clip's attention at each word."""

import logging
import pathlib
from collections.abc import Callable

import jax
from etils import epath
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import UserError
from vidcap_jax.files import is_local
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.studies import attention, curves, videos
from vidcap_jax.studies.drawing import figure
from vidcap_jax.studies.weights import axes_of
from vidcap_jax.training.metric_log import write_picture

CURVES, ATTENTION = 'curves.png', 'attention'


def draw(config: ConfigDict, workdir: epath.Path, log: Callable[[str], None]) -> None:
  """Draws the pictures of a run that are older than its metrics; a failure is only logged.

  They are WORKDIR/curves.png and, of a captioner with attention, the folder WORKDIR/attention,
  whose picture TensorBoard shows as well. Nothing is drawn without matplotlib, in a job of several
  processes, or outside the local disk.

  Args:
    config: the run's.
    workdir: of the run.
    log: prints a line.
  """
  folder = pathlib.Path(workdir)
  if not config.log.pictures or jax.process_count() > 1 or not is_local(workdir):
    return
  if not _can_draw():
    return
  for name, function in ((CURVES, draw_curves), (ATTENTION, draw_attention)):
    try:
      if _is_older(folder / name, folder) and function(config, folder):
        log(f'drawn: {folder / name}')
    except (UserError, OSError) as error:
      log(f'{folder / name}: not drawn: {error}')


def _can_draw() -> bool:
  try:
    figure()
  except ModuleNotFoundError:
    return False
  return True


def _is_older(path: pathlib.Path, workdir: pathlib.Path) -> bool:
  """Whether a picture is missing, or was drawn before the metrics of the run were written."""
  journals = [*workdir.glob('metrics.jsonl'), *workdir.glob('*/metrics.jsonl')]
  newest = max((journal.stat().st_mtime for journal in journals), default=0.0)
  return not path.exists() or path.stat().st_mtime < newest


def draw_curves(config: ConfigDict, workdir: pathlib.Path) -> bool:
  """Draws the training loss and the metric that chooses the best checkpoint, as far as recorded.

  Returns:
    Whether there was anything to draw.
  """
  runs = curves.workdirs([str(workdir)])
  panels = [curves.Panel('train', 'loss'), curves.Panel(config.data.val_split, config.eval.metric)]
  recorded = [panel for panel in panels if curves.is_recorded(runs, panel)]
  if recorded:
    curves.draw(curves.names(runs), recorded, str(workdir / CURVES))
  return bool(recorded)


def draw_attention(config: ConfigDict, workdir: pathlib.Path) -> bool:
  """Explains the caption of the first validation video; TensorBoard gets the picture, too.

  The video's own pictures are shown if the run has rendered it.

  Returns:
    Whether the run has a captioner with attention.
  """
  if config.seeds:
    return False
  restored = restore.restore(restore.find_checkpoint(str(workdir)), make_mesh())
  if not is_captioner(restored.module) or not axes_of(restored):
    return False
  (picture,) = _explain_first(restored, config.data.val_split, workdir)
  if config.log.tensorboard:
    board = workdir / 'tensorboard' / restored.meta['stage']
    write_picture(board, int(restored.path.name), 'attention', picture)
  return True


def _explain_first(restored: Restored, split: str, workdir: pathlib.Path) -> list[pathlib.Path]:
  """Writes the attention of a split's first video; returns its picture in a list."""
  first = videos.from_split(restored.data_folder(None), split, None)[0].video_id
  arguments = [f'--checkpoint={restored.path}', f'--split={split}', f'--ids={first}']
  rendered = workdir / 'data' / 'videos'
  arguments += [f'--videos={rendered}'] if rendered.is_dir() else []
  output = workdir / ATTENTION
  options = attention.make_parser().parse_args([*arguments, f'--output={output}'])
  attention.run(options, log=logging.getLogger(__name__).info)
  return sorted(output.glob('*.png'))
