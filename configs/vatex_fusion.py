"""VATEX 2019: temporal and spatial attention (Table 1), trained by cross entropy.

  python -m vidcap_jax.main --config=configs/vatex_fusion.py --config.data.dir=DIR --workdir=DIR

Stages: ``temporal``, then ``spatial``. Of the paper's recipe, reinforcement (the RL rows) and the
late fusion of both branches are not built yet: the scores are those of cross entropy, and
WORKDIR/eval/SPLIT holds the spatial branch's, WORKDIR/eval/temporal/SPLIT the temporal one's.

Data: streams image (ResNeXt-101) and motion (ir-CSN), sequences of one vector every 32 frames;
audio (VGGish), a sequence or vector; objects (Mask R-CNN), regions of at most 10 a frame. Sizes,
optimiser and beam are not published: those here are ours.

Variants: ``:vanilla``, ``:temporal``, ``:spatial`` train one row of Table 1;
``:runlocal`` trains both stages small, on rendered clips with random-weight streams of the same
kinds.

Not run on VATEX itself: expected score and time are unknown. ``:runlocal``, both stages with their
scores and three captions: 2:39 of CPU time on a 2-core machine, measured at 15 epochs a stage.
"""

from configs import common
from vidcap_jax.data.schema import Stream

VARIANTS = {'variant': ('fusion', 'vanilla', 'temporal', 'spatial')}
# 10 seconds at 25 frames a second, every 32nd frame; the number of words is not published.
STREAMS = (
  Stream('image', 'sequence', (None, 2048), longest=8),
  Stream('motion', 'sequence', (None, 2048), longest=8),
  Stream('audio', 'sequence', (None, 128), longest=10),
  Stream('objects', 'regions', (None, None, 4096), longest=8, most_regions=10),
)
VOCABULARY = 10_000


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  chosen = common.read_variant(variant, **VARIANTS)
  c = common.temporal_spatial(common.base())
  row = chosen['variant']
  c.order = ('temporal', 'spatial') if row == 'fusion' else (row,)
  c.stages = {name: {'model': {'variant': name}} for name in c.order}
  c.train.epochs = 20.0
  c.optimizer.schedule.name = 'step'
  if chosen['runlocal']:
    streams = {
      'image': 'random_sequence',
      'motion': 'random_sequence',
      'audio': 'random_vector',
      'objects': 'random_regions',
    }
    common.run_local(c, streams)
  return c.lock()
