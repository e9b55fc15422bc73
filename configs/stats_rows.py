"""STaTS's variants and training, for the configs of its data sets."""

from collections.abc import Sequence

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.data.schema import Stream
from vidcap_jax.models.layers.stats_branches import POOLINGS
from vidcap_jax.models.layers.stats_branches import VARIANTS as BRANCHES


def variants(*features: str) -> dict[str, tuple[str, ...]]:
  """The parts of a variant: see ``VARIANTS`` in ``configs/common.py``.

  Args:
    features: names of streams with + between them, the default first.
  """
  return {
    'variant': BRANCHES,
    'features': features,
    'pooling': tuple(pooling.replace('_', '+') for pooling in POOLINGS),
    'recipe': ('rl', 'xe'),
  }


def config(chosen: dict[str, str], streams: Sequence[Stream], categories: int = 0) -> ConfigDict:
  """The locked config of a variant.

  Args:
    chosen: a value for each of ``variants`` and 'runlocal'.
    streams: all streams of the data set.
    categories: how many the data set has, for variants whose features name 'category'.
  """
  c = stats(common.paper_base(small=bool(chosen['runlocal'])), chosen, streams)
  if chosen['runlocal']:
    run_local(c)
  elif 'category' in chosen['features'].split('+'):
    c.model.categories = categories
  return c.lock()


def stats(c: ConfigDict, chosen: dict[str, str], streams: Sequence[Stream]) -> ConfigDict:
  """Adds the model's settings (see vidcap_jax/models/stats.py) and the paper's training.

  Args:
    chosen: 'variant', 'pooling' and 'features', names of streams with + between them.
    streams: all streams of the data set; their kinds decide how each is read.
  """
  names = chosen['features'].split('+')
  of_kind = lambda kind: tuple(s.name for s in streams if s.kind == kind and s.name in names)  # noqa: E731
  c.model = ConfigDict(
    {
      'name': 'stats',
      'variant': chosen['variant'],  # st | ts | stats
      'pooling': chosen['pooling'].replace('+', '_'),  # ST: of frames over time
      'grid_streams': of_kind('grid'),
      'region_streams': of_kind('regions'),
      'sequence_streams': of_kind('sequence'),
      'categories': 0,
      'hidden': 512,
      'embed': 256,
      'project': 512,
      'attention': 128,
      'rank_margin': 1.0,
      'rank_weight': 0.1,
      # TS: of the choice of a frame, at the start of cross entropy and at its end. It stays there
      # in reinforcement, in validation and in prediction.
      'temperature': (1.0, 0.01),
      'hard_at_test': False,  # TS: whether evaluation attends to one frame only
      'dropout': 0.5,
    }
  )
  # Batches of 32 captions. Captions of a video would share only the encoding of its features.
  c.data.captions_per_video = 1
  c.data.max_frames = 32
  c.train.batch_size = 32
  c.train.epochs = 20.0
  # The share of given words is 24 / (24 + exp(epoch / 24)), epochs counted over both stages.
  c.train.scheduled_sampling.name = 'inverse_sigmoid'
  c.train.scheduled_sampling.eta = 24.0
  c.optimizer.name = 'rmsprop'
  c.optimizer.learning_rate = 1e-4
  # As PyTorch's RMSprop, which the paper used. Optax adds eps under the root, PyTorch after it.
  c.optimizer.b2 = 0.99
  c.optimizer.eps = 1e-16
  if chosen.get('recipe') == 'rl':
    c.train.epochs = 10.0
    # The weights of the two rewards and of the cross entropy are not published.
    rewards = {'cider': 0.0, 'bleu4': 1.0, 'meteor': 1.0}
    rl = common.reinforce('xe', epochs=10.0, learning_rate=1e-4, rewards=rewards, cross_entropy=1.0)
    rl.train.scheduled_sampling.name = c.train.scheduled_sampling.name
    rl.train.first_epoch = c.train.get_oneway_ref('epochs')  # of xe, also if a flag changes it
    c.order, c.stages.rl = ('xe', 'rl'), rl
  return c


def run_local(c: ConfigDict) -> ConfigDict:
  """Makes the config small (see ``common.run_local``), with streams of the kinds that it reads."""
  m = c.model
  kinds = {'random_grid': m.grid_streams, 'random_regions': m.region_streams}
  kinds['random_sequence'] = m.sequence_streams
  common.run_local(c, {name: kind for kind, names in kinds.items() for name in names})
  c.data.captions_per_video = 5
  c.train.epochs = 20.0
  if 'rl' in c.stages:
    c.stages.rl.train.epochs = 2.0
    c.stages.rl.optimizer.learning_rate = 4e-4
  c.optimizer.name = 'adam'  # RMSprop's first steps are too large at this rate for so short a run
  c.optimizer.b2, c.optimizer.eps = 0.999, 1e-8
  return c
