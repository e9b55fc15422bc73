"""The temporal model on 1,000 MSR-VTT videos with one weak stream."""

from configs import common


def get_config(variant: str = ''):
  """The config; ``:runlocal`` for rendered clips."""
  c = common.temporal_spatial(common.base(), 'temporal')
  c.model.global_streams = ('image',)
  c.model.temporal_streams = ('image',)
  c.train.epochs = 13.0
  c.train.batch_size = 16
  c.data.captions_per_video = 4
  c.optimizer.schedule.name = 'step'
  return c.lock()
