"""dualAFR's rows and streams, for the configs of its data sets."""

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.data.schema import Stream

# The rows of dualAFR's Table 1; Table 2 has those without another alignment.
LAYERS = {'pool2': 8, 'pool3': 4, 'pool4': 2, 'pool5': 1}  # and their model.ratios
ALIGNED = {
  'mlp': 'mlp',
  'maxpool': 'max',
  'avgpool': 'average',
  'hypercolumn': 'hypercolumn',
}
ROWS = (
  ('soft', 'hard', 'resnet+lstm', 'fc7')
  + tuple(f'fc7+{layer}' for layer in LAYERS)
  + tuple(ALIGNED)
)


def dual_afr(c: ConfigDict, row: str = 'soft', runlocal: bool = False) -> ConfigDict:
  """Adds dualAFR's settings (see vidcap_jax/models/dual_afr.py) and how the paper trains it.

  Not published: dropout, attention space, beam and how long early stopping waits; those are ours.

  Args:
    row: one of ``ROWS``.
    runlocal: rendered clips and random-weight layers on one clock, of the same ratios.
  """
  alone = row.removeprefix('fc7+') if row.startswith('fc7+') else None
  layers = dict(LAYERS)
  if row in ('fc7', 'resnet+lstm') or alone:
    layers = {alone: 1} if alone else {}
  c.model = ConfigDict(
    {
      'name': 'dual_afr',
      'choice': 'hard' if row == 'hard' else 'soft',
      'layers': tuple(layers),
      'ratios': tuple(layers.values()),
      'kernels': (7, 5, 3) if len(layers) > 1 else (),
      'alignment': ALIGNED.get(row, 'convolution'),
      'top_stream': 'resnet' if row == 'resnet+lstm' else 'fc7',
      'top': 'lstm' if row == 'resnet+lstm' else 'mean',  # over the stream's vectors
      'hidden': 512,
      'embed': 300,
      'attention': 512,
      'dropout': 0.5,
      'init_scale': 0.01,
    }
  )
  if row == 'hard':
    c.objective = ConfigDict({'name': 'multi_sample', 'draws': 10})
  c.data.captions_per_video = 1  # a batch is 32 pairs of video and caption
  c.train.batch_size = 32
  c.train.epochs = 30.0
  c.eval.patience = 5
  c.optimizer.learning_rate = 2e-4
  c.optimizer.clip_norm = 5.0
  if runlocal:
    extractors = {layer: f'random_{layer}' for layer in layers}
    common.run_local(c, {**extractors, c.model.top_stream: 'random_sequence'})
    c.data.captions_per_video = 5
    c.model.init_scale = 0.25  # 0.01 takes longer to leave than these few steps
  return c


def streams(units: int, windows: int, frames: int) -> tuple[Stream, ...]:
  """The streams of all rows.

  Args:
    units: of the layers' common clock, frames of pool5, in the longest video.
    windows: of fc7, likewise.
    frames: of resnet, likewise.
  """
  shapes = {'pool2': (28, 128), 'pool3': (14, 256), 'pool4': (7, 512), 'pool5': (4, 512)}
  return (
    *(
      Stream(name, 'grid', (None, cells, cells, channels), longest=units * LAYERS[name])
      for name, (cells, channels) in shapes.items()
    ),
    Stream('fc7', 'sequence', (None, 4096), longest=windows),
    Stream('resnet', 'sequence', (None, 2048), longest=frames),
  )
