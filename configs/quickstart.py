"""Captions of rendered clips of moving shapes, from nothing to scores in five minutes.

  pip install -e '.[metrics,video]'
  vidcap train --config=configs/quickstart.py --workdir=/tmp/quickstart
  python -m benchmarks.quickstart --workdir=/tmp/quickstart

Renders 600 clips, 120 of them a test split of combinations that training has not seen, extracts
features with EfficientNet-Lite0, trains the temporal model and captions three test clips.

Measured on a 2-core machine (CPU only), seed 0, 420 steps, test split: CIDEr 3.72 (6.3 times that
of the best constant caption), BLEU-4 0.847, METEOR 0.535, ROUGE-L 0.883. Time: 4:57 minutes, 7:18
of CPU time, everything included. ``:runlocal``: 1:40 of CPU time. More: docs/results/quickstart.md.

``:tiny`` renders 240 clips and reads 4 frames of each: CIDEr 3.17 (4.8 times), 1:16
minutes on a quiet machine, 1:56 of CPU time.

Variants: ``model=spatial|stats|refocus`` reads the 7 x 7 cells of the same network's last layer as
well: the VATEX model's spatial branch, STaTS, and the refocused encoder's first pass with v_s. A
record of a clip's eight frames then holds 2.5 MB. ``runlocal`` trains a smaller model yet.
"""

from configs import common, refocus_rows, stats_rows
from vidcap_jax.data.schema import Stream

VARIANTS = {
  'model': ('temporal', 'spatial', 'stats', 'refocus'),
  'variant': ('full', 'tiny'),
}
STREAMS = (
  Stream('image', 'sequence', (None, 1280), longest=8),
  Stream('motion', 'sequence', (None, 768), longest=8),
  Stream('cells', 'grid', (None, 7, 7, 1280), longest=8),
)
VOCABULARY = 63


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  chosen = common.read_variant(variant, **VARIANTS)
  c = common.base()
  c.data.recipe.videos = 600
  c.data.recipe.streams = {
    'image': 'efficientnet_lite0',
    'motion': 'efficientnet_lite0_motion',
  }
  add_model(c, chosen['model'])
  if chosen['model'] != 'temporal':
    c.data.recipe.streams['cells'] = 'efficientnet_lite0_grid'
  for size in ('hidden', 'embed', 'project', 'attention'):
    if size in c.model:
      c.model[size] = 128
  c.model.dropout = 0.2
  # All captions are of about one length, 11 words at most.
  c.data.max_words = 11
  c.data.length_buckets = ()
  # At so high a learning rate words are learned sooner with the small features as they are than
  # with standardised ones (docs/results/quickstart.md).
  c.data.standardise = False
  c.train.batch_size = 32
  c.train.epochs = 30.0
  c.optimizer.learning_rate = 4e-3
  c.optimizer.schedule.name = 'cosine'
  c.eval.every_epochs = 10.0
  if chosen['variant'] == 'tiny':
    make_tiny(c)
  if chosen['runlocal']:
    cells = {'cells': 'random_grid'} if 'cells' in c.data.recipe.streams else {}
    common.run_local(c, {'image': 'random_sequence', 'motion': 'random_sequence', **cells})
  return c.lock()


def make_tiny(c) -> None:
  """Fewer clips, 4 frames of each, fewer steps, and only the test split scored at the end."""
  c.data.recipe.videos = 240
  with c.unlocked():
    for stream, extractor in c.data.recipe.streams.items():
      c.data.recipe.streams[stream] = f'{extractor}@uniform=4'
  c.train.epochs = 48.0
  c.eval.every_epochs = 12.0
  c.eval.metrics = ('CIDEr',)
  c.eval.splits = ('test',)


def add_model(c, name: str) -> None:
  """Sets a model that reads these streams."""
  if name in ('temporal', 'spatial'):
    common.temporal_spatial(c, name)
    c.model.global_streams = c.model.temporal_streams = ('image', 'motion')
    c.model.spatial_stream = 'cells'
  elif name == 'stats':
    row = {'variant': 'stats', 'pooling': 'mean+ranked', 'features': 'cells+motion'}
    c.model = stats_rows.stats(common.base(), row, STREAMS).model
  else:
    c.model = refocus_rows.refocus(common.base(), 'kbigru_vs_va', grid=True, audio=False).model
    c.model.stream = c.model.spatial_stream = 'cells'
