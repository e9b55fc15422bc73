"""Global2Local on MSVD: the row "Ours" of Table 3, the model with the regions of 2 key frames.

  python -m data_prep.build --format=msvd --annotations=… --min_count=2 \\
      --features=image=DIR --features=motion=DIR --features=objects=DIR --out=data/msvd
  python -m vidcap_jax.main --config=configs/msvd_global2local.py --config.data.dir=data/msvd \\
      --workdir=runs/g2l_msvd

Data: 1,200 / 100 / 670 videos, words seen twice or more (the paper counts 3,468 words, which the
training captions do not give); streams as in configs/msrvtt_global2local.py, whose variants and
``:runlocal`` there are here too. In the paper: BLEU-4 53.6, METEOR 35.6, ROUGE-L 73.5, CIDEr 97.1.

Not run on MSVD itself: expected score and time are unknown.
"""

from configs import msrvtt_global2local
from vidcap_jax.data.schema import Stream

VARIANTS = msrvtt_global2local.VARIANTS
# A minute, the longest clip's length, at 30 frames a second.
STREAMS = (
  Stream('image', 'sequence', (None, 1536), longest=360),
  Stream('motion', 'sequence', (None, 2048), longest=360),
  Stream('objects', 'regions', (None, None, 2048), longest=120, most_regions=16),
)
VOCABULARY = 3_468


def get_config(variant: str = ''):
  """The config; see configs/msrvtt_global2local.py for the variants."""
  return msrvtt_global2local.get_config(variant)
