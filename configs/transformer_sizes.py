"""The Transformer's section of a config in its sizes, and how Transformers are trained."""

from ml_collections import ConfigDict

SIZES = {
  'small': {
    'hidden': 256,
    'embed': 256,
    'heads': 4,
    'feed_forward': 1024,
    'encoder_layers': 2,
    'decoder_layers': 2,
  },
  # Those of "base" in Vaswani et al. 2017.
  'base': {
    'hidden': 512,
    'embed': 512,
    'heads': 8,
    'feed_forward': 2048,
    'encoder_layers': 6,
    'decoder_layers': 6,
  },
}


def transformer(c: ConfigDict, size: str, streams: tuple[str, ...]) -> ConfigDict:
  """Sets the Transformer's section (see vidcap_jax/models/transformer.py).

  Args:
    c: the config.
    size: a key of ``SIZES``.
    streams: sequences, vectors or grids.
  """
  c.model = ConfigDict(
    {
      'name': 'transformer',
      'streams': streams,
      'region_streams': (),
      **SIZES[size],
      'activation': 'gelu',  # relu | gelu
      'tied': False,  # whether the logits use the word embeddings
      'dropout': 0.1,
    }
  )
  return c


def warm_up(c: ConfigDict) -> ConfigDict:
  """Sets what Transformers are usually trained with: Adam with warm-up, then a cosine."""
  c.optimizer.learning_rate = 5e-4
  c.optimizer.b2 = 0.98
  c.optimizer.schedule.name = 'cosine'
  c.optimizer.schedule.warmup_epochs = 1.0
  return c
