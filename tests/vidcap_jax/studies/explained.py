"""A caption with an attention of every kind, for tests of its pictures."""

import numpy as np

from vidcap_jax.data.records import Video
from vidcap_jax.features.frame_times import FrameTimes
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.studies.panels import Gallery
from vidcap_jax.studies.videos import Chosen
from vidcap_jax.studies.weights import Attention, Explained

WORDS = ('a', 'red', '$x^')  # no formulas are read from words
T = 4


def attention(name, axes, shape, stream='cells', grid=None, **options):
  rng = np.random.default_rng(0)
  rows = np.arange(T) if 'frames' in axes else np.zeros(0, int)
  values = rng.dirichlet(np.ones(int(np.prod(shape))), len(WORDS)).reshape(len(WORDS), *shape)
  return Attention(name, AttentionAxes(axes, stream, **options), values, rows, grid)


ATTENTIONS = (
  attention('temporal', ('frames',), (T,)),
  attention('st_spatial', ('places',), (6,), grid=(2, 3)),
  attention('ts_spatial', ('places',), (6,), grid=(2, 3), frames='temporal'),
  attention('all', ('frames', 'places'), (T, 6), grid=(2, 3)),
  attention('one_place', ('frames', 'places'), (T, 1), grid=None),
  attention('keyframe', ('picks', 'frames'), (2, T)),
  attention('spatial', ('picks', 'places'), (2, 5), frames='keyframe'),
  attention('layer', ('layers',), (2,), '', names=('pool4', 'pool5')),
  attention('branch', ('branches',), (2,), '', names=('ST', 'TS')),
  attention('words', ('words',), (3,), ''),
)
EXPLAINED = Explained(Video('v', (), {}), WORDS, {a.name: a for a in ATTENTIONS})
SECONDS = (0.0, 0.5, 1.0, 1.5)
TIMED = Chosen(EXPLAINED.video, times={'cells': FrameTimes(SECONDS, 'sampled')})
PICTURES = Gallery(
  {('cells', s): np.full((16, 16, 3), 40 * i, np.uint8) for i, s in enumerate(SECONDS)}
)
BOXES = np.tile([0.25, 0.25, 0.75, 0.75], (T, 5, 1))
