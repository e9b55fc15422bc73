"""The refocused video encoder on MSVD (Table 2), whose videos have no sound.

  vidcap build --format=msvd --annotations=DIR --min_count=3 --max_words=15 \\
      --features=image=resnet152_grid --output=data/msvd
  vidcap train --config=configs/msvd_refocus.py --config.data.dir=data/msvd \\
      --workdir=runs/msvd_refocus

Stages, ``recipe=`` and settings as in configs/msrvtt_refocus.py, without the stream audio. Splits:
1,200 / 100 / 670 videos.

Vocabulary: 4,020 words with the 4 special tokens. The paper prints its rule, words seen 3 times in
captions cut at 15 words, but no number; the training split alone is counted.

Variants: vre (the default; Table 2), and Table 1's other rows: kbigru_vs_va (here without v_a),
kbigru, attention_vs, soft_attention, mean_pool; ``features=sequence`` for a stream image without
cells; ``runlocal`` for a small model on rendered clips.

The paper's scores: VRE BLEU-4 51.7, ROUGE-L 71.9, METEOR 34.3, CIDEr 86.7.
Not run on MSVD itself: score and time of this config are unknown.
"""

from configs import common, refocus_rows
from configs.refocus_rows import RECIPES, ROWS
from vidcap_jax.data.schema import Stream

VARIANTS = {'variant': tuple(ROWS), 'features': ('grid', 'sequence'), **RECIPES}
STREAMS = (Stream('image', 'grid', (None, 7, 7, 2048), longest=20),)
VOCABULARY = 4_020
RESTARTS = refocus_rows.RESTARTS


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  return refocus_rows.config(common.read_variant(variant, **VARIANTS))
