"""From nothing to captions: clips of moving shapes, rendered, learned and described.

pip install -e '.[metrics,video]'
python -m vidcap_jax.main --config=configs/quickstart.py --workdir=/tmp/quickstart
"""

from configs import common


def get_config(variant: str = ''):
  """The config; ``:runlocal`` is smaller still."""
  c = common.temporal_spatial(common.base(), 'temporal')
  c.data.recipe.videos = 600
  c.data.recipe.streams = {
    'image': 'efficientnet_lite0',
    'motion': 'efficientnet_lite0_motion',
  }
  c.model.global_streams = ('image', 'motion')
  c.model.temporal_streams = ('image', 'motion')
  c.model.hidden = c.model.embed = c.model.project = c.model.attention = 128
  c.model.dropout = 0.3
  c.train.batch_size = 32
  c.train.epochs = 30.0
  c.optimizer.learning_rate = 2e-3
  c.optimizer.schedule.name = 'cosine'
  c.decode.length_penalty = 1.0
  c.eval.every_epochs = 10.0
  if common.variant_or_error(variant, ('runlocal',)):
    common.run_local(c, {'image': 'random_sequence', 'motion': 'random_sequence'})
  return c.lock()
