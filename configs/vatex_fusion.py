"""VATEX 2019: temporal and spatial attention (Table 1), trained by cross entropy.

  python -m vidcap_jax.main --config=configs/vatex_fusion.py --config.data.dir=DIR --workdir=DIR

Stages: ``embedding``, ``temporal``, then ``spatial``. Of the paper's recipe, reinforcement (the
RL rows) and the late fusion of both branches, which the embedding is for, are not built yet: the
scores are those of cross entropy. WORKDIR/eval/SPLIT holds the spatial branch's,
WORKDIR/eval/temporal/SPLIT the temporal one's, and WORKDIR/eval/embedding/SPLIT how well the
embedding retrieves captions and videos.

Data: streams image (ResNeXt-101) and motion (ir-CSN), sequences of one vector every 32 frames;
audio (VGGish), a sequence or vector; objects (Mask R-CNN), regions of at most 10 a frame. Sizes,
optimiser and beam are not published, nor is anything of the embedding: those here are ours, the
embedding's are what is usual for hinge losses with the hardest negatives.

Variants: ``:vanilla``, ``:temporal``, ``:spatial`` train one row of Table 1, ``:embedding`` the
embedding alone.
``:fallback=i3d`` (with any of the rows, e.g. ``:temporal,fallback=i3d``) first trains a temporal
model on a stream i3d, the features that come with VATEX. It captions the videos which the branches
can't see because they can no longer be downloaded: in the data set these have i3d alone
(--optional=image,motion,audio,objects). Train on videos that have everything.
``:runlocal`` trains all stages small, on rendered clips with random-weight streams of the same
kinds; they lack nothing, so a fallback is trained there but has nothing to fill in.

Not run on VATEX itself: expected score and time are unknown. ``:runlocal``, three stages with their
scores and three captions: 3:32 of CPU time on a 2-core machine.
"""

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import ConfigError

VARIANTS = {
  'variant': ('fusion', 'vanilla', 'temporal', 'spatial', 'embedding'),
  'fallback': ('none', 'i3d'),
}
# 10 seconds at 25 frames a second, every 32nd frame; the number of words is not published.
STREAMS = (
  Stream('image', 'sequence', (None, 2048), longest=8),
  Stream('motion', 'sequence', (None, 2048), longest=8),
  Stream('audio', 'sequence', (None, 128), longest=10),
  Stream('objects', 'regions', (None, None, 4096), longest=8, most_regions=10),
  Stream('i3d', 'sequence', (None, 1024), longest=32),
)
VOCABULARY = 10_000


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  chosen = common.read_variant(variant, **VARIANTS)
  c = common.temporal_spatial(common.base())
  row = chosen['variant']
  if row == 'embedding' and chosen['fallback'] != 'none':
    raise ConfigError(
      'the variants embedding and fallback=i3d exclude each other: an embedding '
      'makes no captions to fill in'
    )
  c.order = ('embedding', 'temporal', 'spatial') if row == 'fusion' else (row,)
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
    if chosen['fallback'] != 'none':
      streams['i3d'] = 'random_sequence'
    common.run_local(c, streams)
  if 'embedding' in c.order:
    c.stages.embedding = embedding(small=bool(chosen['runlocal']))
  if row == 'embedding':
    c.data.recipe.show = 0  # it makes no captions to show
  if chosen['fallback'] == 'i3d':
    add_i3d(c)
  return c.lock()


def embedding(*, small: bool = False) -> ConfigDict:
  """A stage that trains a video-semantic embedding (see vidcap_jax/models/embedding.py).

  Args:
    small: for rendered clips.
  """
  return ConfigDict(
    {
      'model': {
        'name': 'embedding',
        'streams': ('image', 'motion', 'audio'),
        'hidden': 64 if small else 1024,
        'embed': 32 if small else 300,
        'dropout': 0.0,
      },
      'objective': {
        'name': 'embedding',
        'margin': 0.2,
        'hardest': True,  # the nearest negative alone; False: all of a batch
      },
      'train': {'batch_size': 16 if small else 128},
      'optimizer': {'learning_rate': 4e-3 if small else 2e-4, 'clip_norm': 2.0},
      'eval': {'metric': 'rsum'},
    }
  )


def add_i3d(c) -> None:
  """A stage on the stream i3d, from which the captioning stages' evaluation fills in."""
  for name in c.order:
    if name != 'embedding':
      c.stages[name]['eval'] = {'fallback': 'stage:i3d'}
  i3d = {'variant': 'temporal', 'global_streams': ('i3d',), 'temporal_streams': ('i3d',)}
  c.stages['i3d'] = {'model': i3d}
  c.order = ('i3d', *c.order)
