"""Global2Local's settings, for the configs of its data sets."""

from ml_collections import ConfigDict


def global2local(c: ConfigDict) -> ConfigDict:
  """Adds Global2Local's settings (see vidcap_jax/models/global2local.py) and its training."""
  c.model = ConfigDict(
    {
      'name': 'global2local',
      'frame_stream': 'image',
      'clip_stream': 'motion',
      'region_stream': 'objects',
      'stride': 3,  # frames to a frame with regions
      'alignment': True,
      'picks': 2,  # frames whose regions are looked at; 0: none
      'sampler': 'gumbel',  # gumbel | argmax
      'tau': 1e-4,
      'backward_tau': 0.0,  # straight-through gradient of this temperature; 0: off
      'scale': 10.0,
      'renormalise': False,  # weights of equation 8 sum to 1 instead of 1/3
      'activation': 'relu',  # relu | sigmoid | tanh
      'hidden': 768,
      'embed': 300,
      'project': 1024,
      'project_regions': 1024,
      'aligned': 512,
      'attention': 384,
      'dropout': 0.5,
    }
  )
  c.train.epochs = 30.0
  c.optimizer.name = 'adamw'
  c.optimizer.weight_decay = 2e-5
  # From 1e-7 to 1e-4 in 3 epochs, 1e-6 in the last 7.
  c.optimizer.learning_rate = 1e-4
  c.optimizer.schedule.name = 'step'
  c.optimizer.schedule.warmup_epochs = 3.0
  c.optimizer.schedule.warmup_start = 1e-3
  c.optimizer.schedule.start_epoch = 23.0
  c.optimizer.schedule.every_epochs = 7.0
  c.optimizer.schedule.factor = 0.01
  c.decode.beam = 5
  return c
