"""Every model with equal sizes and training, for comparisons on one data set.

The papers' models differ in their streams, sizes and schedules. Here each reads what there is, one
sequence of frames and perhaps one grid of them, so that scores compare the models alone.
"""

from collections.abc import Sequence

from ml_collections import ConfigDict

from configs import common, dual_afr, global2local, refocus_rows, stats_rows, transformer_sizes
from vidcap_jax.data.schema import Stream

SIZES = ('hidden', 'embed', 'project', 'attention', 'project_regions', 'aligned')


def config(
  chosen: dict[str, str], streams: Sequence[Stream], *, epochs: float, rl_epochs: float
) -> ConfigDict:
  """The locked config of a variant.

  Args:
    chosen: 'model', 'recipe' and 'runlocal'.
    streams: a sequence and perhaps a grid, as in ``add_model``.
    epochs: of cross entropy; the stages of the refocused encoder share them.
    rl_epochs: of reinforcement, with ``recipe=rl``.
  """
  c = common.base()
  add_model(c, chosen['model'], *streams)
  c.train.batch_size = 32  # with five captions each: 160 captions
  c.train.epochs = epochs
  c.train.label_smoothing = 0.1
  c.optimizer.schedule.name = 'cosine'
  c.optimizer.learning_rate = 1e-3
  if chosen['model'] == 'transformer':
    transformer_sizes.warm_up(c)
    c.model.dropout = 0.2
    # With 32 its CIDEr of validation on Flickr8k is 50.7, with 16 52.3; that of ``spatial`` 47.9
    # and 46.5.
    c.train.batch_size = 16
  if chosen['model'] == 'refocus':
    share_epochs(c, epochs)
  c.decode.length_penalty = 0.5
  if chosen['recipe'] == 'rl':
    last = c.order[-1]
    c.order = (*c.order, 'rl')
    # Many small steps, and samples without unlikely words: with batches of 32 and temperature 1,
    # CIDEr of validation fell by 2 to 9 on Flickr8k in an epoch (docs/results/flickr8k.md).
    c.stages.rl = common.reinforce(
      last, epochs=rl_epochs, learning_rate=1e-4, baseline='others', samples=5
    )
    c.stages.rl.objective.temperature = 0.5
    c.stages.rl.train.batch_size = 8
    # At a constant rate CIDEr of validation goes up and down by 2 between half epochs. With a rate
    # that falls, the Transformer ends 2.7 higher on Flickr8k, and 4.1 on test.
    c.stages.rl.optimizer.schedule = ConfigDict({'name': 'cosine', 'warmup_epochs': 0.1})
    c.stages.rl.eval = {'every_epochs': 0.5}
  if chosen['runlocal']:
    extractors = {'sequence': 'random_sequence', 'grid': 'random_grid'}
    common.run_local(c, {stream.name: extractors[stream.kind] for stream in streams})
  return c.lock()


def add_model(
  c: ConfigDict, name: str, sequence: Stream, grid: Stream | None = None, *, size: int = 256
) -> ConfigDict:
  """Sets a model's section on a data set's streams, and the refocused encoder's stages.

  Args:
    c: the config.
    name: temporal, spatial, stats, refocus, dual_afr, global2local, transformer or
      updown.
    sequence: a vector for each frame.
    grid: a grid for each frame, of the same frames; ``spatial`` needs one.
    size: H, E, P and A of the papers' models; the Transformer's are those of its size ``small``.
  """
  frames, cells = sequence.name, grid.name if grid else ''
  if name in ('temporal', 'spatial'):
    common.temporal_spatial(c, name)
    c.model.global_streams = c.model.temporal_streams = (frames,)
    if grid:
      c.model.spatial_stream = cells
  elif name == 'transformer':
    return transformer_sizes.transformer(c, 'small', (frames, cells) if grid else (frames,))
  elif name == 'updown':
    c.model = common.temporal_spatial(common.base()).model
    del c.model.variant, c.model.temporal_streams, c.model.spatial_stream
    streams = {'global_streams': (frames,), 'attended_stream': cells or frames}
    c.model.update({'name': name, **streams})
  elif name == 'stats':
    row = {'variant': 'stats', 'pooling': 'mean+ranked', 'features': cells or frames}
    c.model = stats_rows.stats(common.base(), row, (grid or sequence,)).model
  elif name == 'refocus':
    rows = refocus_rows.refocus(common.base(), 'vre', grid=grid is not None, audio=False)
    c.model, c.order, c.stages, c.objective = rows.model, rows.order, rows.stages, rows.objective
    c.model.update({'stream': frames, 'spatial_stream': cells})
  elif name == 'dual_afr':
    c.model = dual_afr.dual_afr(common.base(), 'fc7').model
    c.model.update({'layers': (cells or frames,), 'ratios': (1,), 'top_stream': frames})
    c.model.init_scale = 0.08  # training needs more epochs with the paper's 0.01
  else:
    c.model = global2local.global2local(common.base()).model
    c.model.update({'frame_stream': frames, 'clip_stream': frames, 'picks': 0})
    if grid:
      c.model.update({'region_stream': cells, 'picks': 1, 'stride': 1})
  c.model.update({field: size for field in SIZES if field in c.model})
  return c


def share_epochs(c: ConfigDict, epochs: float) -> ConfigDict:
  """Divides training's epochs among the stages of the refocused encoder, 3 : 7 : 3."""
  for stage, share in (('step1', 3), ('joint', 7), ('fixed', 3)):
    train = c.stages[stage].get('train', {})
    c.stages[stage].train = {**train, 'epochs': epochs * share / 13}
  return c
