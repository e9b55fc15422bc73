"""``configs/vatex_fusion.py`` with all of its structure and small sizes, to compile its programs.

Every size is different from every other, so that an array's shape shows what it is.
"""

from configs import vatex_fusion
from vidcap_jax.data.schema import Stream

VARIANTS = vatex_fusion.VARIANTS
STREAMS = (
  Stream('image', 'sequence', (None, 96), longest=6),
  Stream('motion', 'sequence', (None, 80), longest=6),
  Stream('audio', 'sequence', (None, 48), longest=7),
)
VOCABULARY = 1000


def get_config(variant: str = ''):
  """As of the config file, with a batch of 16 videos, 3 captions of each and at most 10 words."""
  c = vatex_fusion.get_config(variant)
  c.unlock()
  c.model.update({'hidden': 128, 'embed': 112, 'project': 104, 'attention': 88})
  c.data.captions_per_video = 3
  c.data.max_words = 10
  c.data.length_buckets = ()
  c.train.batch_size = c.eval.batch_size = 16
  c.decode.beam = 4
  return c.lock()
