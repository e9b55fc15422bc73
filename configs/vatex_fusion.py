"""VATEX 2019: temporal and spatial attention, reinforced, late fusion (Table 1).

  vidcap build --format=vatex --language=en \\
      --annotations=train.json,val.json,test.json --min_count=3 --max_words=0 \\
      --max_regions=objects=10 --missing=skip --optional=audio \\
      --features=image=DIR,motion=DIR,audio=DIR,objects=DIR --output=data/vatex
  vidcap train --config=configs/vatex_fusion.py --config.data.dir=DIR --workdir=DIR

Stages: ``temporal`` and ``spatial`` by cross entropy, each followed by ``…_rl``, self-critical
training on CIDEr-D and BLEU-4; ``embedding``, which is trained to place videos near their captions;
and ``fusion``, in which the embedding chooses between the two branches' captions.
WORKDIR/eval/SPLIT holds the scores of the fusion, and of always choosing the best candidate and of
choosing at random; WORKDIR/eval/STAGE/SPLIT those of every other stage: Table 1's rows.

Data: streams image (ResNeXt-101) and motion (ir-CSN), sequences of one vector every 32 frames;
audio (VGGish), a sequence or vector; objects (Mask R-CNN), regions of at most 10 a frame. Sizes,
optimiser and beam are not published, nor is anything about the embedding. Those here were
chosen for this config; the embedding's are usual for hinge losses with the hardest negatives (its
gradients are clipped at a norm of 2). Features are not standardised, and the branches' gradients
not clipped: the paper does not mention either.

Vocabulary: the paper prints nothing of it, and VATEX's captions were not at hand, so the size of
10,000 is assumed. The command keeps words seen 3 times, the default of the build, and cuts no
caption; ``python -m benchmarks.vocabularies`` prints what other thresholds give.

Variants: ``:vanilla``, ``:temporal``, ``:spatial``, ``:temporal_rl``, ``:spatial_rl`` train one row
of Table 1 (and the stage that it starts from), ``:embedding`` only the embedding; ``:table1`` the
vanilla model and then all stages, every row of Table 1 in one run, printed as a table at the end.
``:fallback=i3d`` (with any of the rows, e.g. ``:temporal,fallback=i3d``) first trains a temporal
model on a stream i3d, the features that come with VATEX. It captions the videos that can no longer
be downloaded, which have only i3d in the data set (--optional=image,motion,audio,objects). Train on
videos that have all streams.
``:runlocal`` trains small models of all stages on rendered clips with random-weight streams of the
same kinds. No stream is missing there, so a fallback is trained but captions no video.

Not run on VATEX itself: expected score and time are unknown. ``:runlocal``, all six stages with
their scores and three captions, took under 5:30 minutes on two cores; ``:table1,runlocal`` 7:33 of
CPU time. So few steps give low scores.
"""

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.data.schema import Stream
from vidcap_jax.errors import ConfigError

VARIANTS = {
  'variant': (
    *('fusion', 'table1', 'vanilla', 'temporal', 'spatial', 'temporal_rl', 'spatial_rl'),
    'embedding',
  ),
  'fallback': ('none', 'i3d'),
}
# 10 seconds at 25 frames a second, every 32nd frame.
STREAMS = (
  Stream('image', 'sequence', (None, 2048), longest=8),
  Stream('motion', 'sequence', (None, 2048), longest=8),
  Stream('audio', 'sequence', (None, 128), longest=10),
  Stream('objects', 'regions', (None, None, 4096), longest=8, most_regions=10),
  Stream('i3d', 'sequence', (None, 1024), longest=32),
)
VOCABULARY = 10_000  # assumed, see above
RESTARTS = {'learning rate': 'a constant rate in reinforcement; the paper gives none'}


RECIPE = ('temporal', 'temporal_rl', 'spatial', 'spatial_rl', 'embedding', 'fusion')
ORDERS = {
  'temporal_rl': ('temporal', 'temporal_rl'),
  'spatial_rl': ('spatial', 'spatial_rl'),
  'fusion': RECIPE,
  'table1': ('vanilla', *RECIPE),
}


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  chosen = common.read_variant(variant, **VARIANTS)
  c = common.temporal_spatial(common.paper_base(small=bool(chosen['runlocal'])))
  row = chosen['variant']
  if row == 'embedding' and chosen['fallback'] != 'none':
    raise ConfigError(
      'the variants embedding and fallback=i3d exclude each other: an embedding makes no captions'
    )
  c.order = ORDERS.get(row, (row,))
  c.stages = {name: stage(name, chosen) for name in c.order}
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
  if row == 'embedding':
    c.data.recipe.show = 0  # an embedding makes no captions
  if chosen['fallback'] == 'i3d':
    add_i3d(c)
  return c.lock()


def stage(name: str, chosen: dict[str, str]) -> ConfigDict:
  """The changes that a stage makes to the config."""
  small = bool(chosen['runlocal'])
  if name == 'embedding':
    return embedding(small=small)
  if name == 'fusion':
    branches = ('stage:temporal_rl', 'stage:spatial_rl')
    return ConfigDict(
      {'task': 'fuse', 'fuse': {'embedding': 'stage:embedding', 'runs': branches, 'candidates': 1}}
    )
  branch = name.removesuffix('_rl')
  changes = ConfigDict({'model': {'variant': branch}})
  if name != branch:
    # The paper mixes the rewards CIDEr and BLEU with cross entropy, but doesn't give weights and
    # rate.
    rate = 4e-4 if small else 5e-5
    changes.update(common.reinforce(branch, epochs=10.0, learning_rate=rate, cross_entropy=0.1))
  return changes


def embedding(*, small: bool = False) -> ConfigDict:
  """A stage that trains a video-semantic embedding (see vidcap_jax/models/embedding.py).

  Args:
    small: whether sizes are for rendered clips.
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
        'hardest': True,  # True: only the nearest negative; False: all negatives of a batch
      },
      'train': {'batch_size': 16 if small else 128},
      'optimizer': {'learning_rate': 4e-3 if small else 2e-4, 'clip_norm': 2.0},
      'eval': {'metric': 'rsum'},
    }
  )


def add_i3d(c) -> None:
  """Adds a stage on the stream i3d, the fallback of every captioning stage's evaluation."""
  for name in c.order:
    if name != 'embedding':
      c.stages[name]['eval'] = {'fallback': 'stage:i3d'}
  i3d = {'variant': 'temporal', 'global_streams': ('i3d',), 'temporal_streams': ('i3d',)}
  c.stages['i3d'] = {'model': i3d}
  c.order = ('i3d', *c.order)
