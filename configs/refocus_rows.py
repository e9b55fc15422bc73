"""The refocused encoder's rows and stages, for the configs of its data sets."""

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.errors import ConfigError

# Rows of Table 1 -> passes of the encoder, pooling of frames, whether there is v_s, v_a.
ROWS = {
  'vre': (2, 'attention', True, True),
  'kbigru_vs_va': (1, 'attention', True, True),
  'kbigru': (1, 'attention', False, False),
  'attention_vs': (0, 'attention', True, False),
  'soft_attention': (0, 'attention', False, False),
  'mean_pool': (0, 'mean', False, False),
}
# Reinforcement at the end: of the decoder, in the paper's own rows (published); of the whole model,
# in every row (rl); or none (xe).
RECIPES = {'recipe': ('published', 'rl', 'xe')}
OTHER_PAPERS = ('soft_attention', 'mean_pool')  # rows of models that others published
RESTARTS = {'learning rate': 'a tenth in reinforcement; no rate is published for it'}


def config(chosen: dict[str, str]) -> ConfigDict:
  """The locked config of a variant.

  Args:
    chosen: 'variant', 'features' (grid_audio, grid or sequence), 'recipe' and 'runlocal'.
  """
  features = chosen['features']
  c = common.paper_base(small=bool(chosen['runlocal']))
  refocus(c, chosen['variant'], grid=features != 'sequence', audio=features == 'grid_audio')
  recipe = chosen['recipe']
  if recipe == 'rl' or (recipe == 'published' and chosen['variant'] not in OTHER_PAPERS):
    reinforce(c, encoder='trained' if recipe == 'rl' else 'fixed')
  if chosen['runlocal']:
    run_local(c, 'random_sequence' if features == 'sequence' else 'random_grid')
  return c.lock()


def refocus(c: ConfigDict, row: str, *, grid: bool, audio: bool) -> ConfigDict:
  """Adds a row's model and stages, with the published settings.

  Args:
    row: a key of ``ROWS``.
    grid: whether the stream 'image' is a grid; v_s needs one.
    audio: whether there is a stream 'audio'.

  Raises:
    ConfigError: a row of spatial attention without a grid.
  """
  passes, temporal, spatial, audible = ROWS[row]
  if spatial and not grid and row != 'vre':
    raise ConfigError(f'variant={row} attends to the cells of a grid; use it without features=')
  c.model = ConfigDict(
    {
      'name': 'refocus',
      'passes': passes,  # of the encoder: 0 none | 1 from the middle frame | 2 refocused
      'temporal': temporal,  # attention | mean
      'stream': 'image',
      'spatial_stream': 'image' if spatial and grid else '',
      'audio_stream': 'audio' if audible and audio else '',
      'hidden': 512,
      'embed': 512,
      'attention': 512,  # not published
      'dropout': 0.5,
    }
  )
  c.data.max_words = 15  # and <EOS>
  c.data.max_frames = 20
  c.optimizer.learning_rate = 3e-4  # of Adam, which is not published
  c.train.epochs = 20.0  # not published, nor is the batch size
  # A quarter of the words read are the model's own, from the start.
  c.train.scheduled_sampling.update(
    {'name': 'linear', 'start_epoch': 0.0, 'increase': 0.25, 'most': 0.25}
  )
  if row == 'vre':
    _phases(c)
  return c


def _phases(c: ConfigDict) -> None:
  """Adds step 1, both steps with the reward, choosing key frames, and training with them."""
  objective = {
    'name': 'refocus',
    'beta': 0.03,  # of the rewards' loss, eq 22; 0: only both passes' cross entropy
    'reward_loss': 'eq21',  # eq21 (as intended) | eq21_printed | eq19
  }
  c.order = ('step1', 'joint', 'choose', 'fixed')
  c.stages = ConfigDict(
    {
      'step1': {'model': {'passes': 1}, 'train': {'epochs': 5.0}},
      'joint': {'objective': objective, 'train': {'init_from': 'stage:step1'}},
      'choose': {'task': 'key_frames', 'train': {'init_from': 'stage:joint'}},
      'fixed': {
        'objective': {**objective, 'beta': 0.0},
        'data': {'key_frames': 'stage:choose'},
        # Starts from ``joint``, whose parameters choose the key frames of new videos.
        'train': {'init_from': 'stage:joint'},
      },
    }
  )


def reinforce(c: ConfigDict, encoder: str) -> ConfigDict:
  """Adds the last stage: CIDEr and ROUGE-L as rewards, with the key frames still fixed.

  Its place among the stages and its learning rate are not published.

  Args:
    encoder: 'fixed' or 'trained'; the paper applies reinforcement "for the decoder".
  """
  last = c.order[-1]
  c.order = (*c.order, 'rl')
  rewards = {'cider': 1.0, 'bleu4': 0.0, 'rouge_l': 1.0}
  stage = common.reinforce(last, epochs=5.0, learning_rate=3e-5, rewards=rewards, encoder=encoder)
  if 'fixed' in c.stages:
    stage.data.key_frames = c.stages.fixed.data.key_frames
  c.stages.rl = stage
  return c


def run_local(c: ConfigDict, image: str) -> ConfigDict:
  """Makes the config small (see ``common.run_local``), with short stages.

  Args:
    image: the extractor of the stream 'image'.
  """
  audio = c.model.audio_stream
  common.run_local(c, {'image': image, **({audio: 'random_vector'} if audio else {})})
  c.eval.every_epochs = 5.0
  if 'rl' in c.stages:
    c.stages.rl.optimizer.learning_rate = 4e-4
  for stage, epochs in (('step1', 10.0), ('joint', 10.0), ('fixed', 5.0), ('rl', 3.0)):
    if stage in c.stages:
      c.stages[stage].train.epochs = epochs
  return c
