"""The refocused video encoder on MSR-VTT (Table 1), by cross entropy and the refocus reward.

  vidcap build --format=msrvtt \\
      --annotations=train_val_videodatainfo.json,test_videodatainfo.json \\
      --min_count=3 --max_words=15 --features=image=resnet152_grid,audio=vggish \\
      --optional=audio --output=data/msrvtt
  vidcap train --config=configs/msrvtt_refocus.py --config.data.dir=data/msrvtt \\
      --workdir=runs/msrvtt_refocus

Stages: ``step1`` (only the encoder's first pass, 5 epochs), ``joint`` (both passes and the
reward), ``choose`` (the key frames of the best joint model, for every split), ``fixed`` (training
continues with them), ``rl`` (CIDEr-D and ROUGE-L as rewards; the result), in which the encoder is
fixed: the paper applies reinforcement "for the decoder". SoftAtt and MeanPool, models of other
authors, have no ``rl``. ``recipe=rl``, which is not the paper's, adds ``rl`` of the whole model to
every row; ``recipe=xe`` leaves it out. As published, features are not standardised and gradients
not clipped.

Data: streams image, a grid of 7 x 7 x 2048 from ResNet-152 of 20 uniform frames, and audio, a
vector of 128 (VGGish). Splits: the standard 6,513 / 497 / 2,990 videos.

Vocabulary: 10,189 words with the 4 special tokens. The paper prints its rule, words seen 3 times in
captions cut at 15 words, but no number; the training split alone is counted.

Variants: the rows of Table 1, below; ``features=grid`` for data without audio,
``features=sequence`` for a stream image without cells, which means without v_s; ``runlocal`` for a
small model on rendered clips.

The paper's BLEU-4, ROUGE-L, METEOR and CIDEr:

  variant=vre (the default)   VRE             43.2 62.0 28.0 48.3
  variant=kbigru_vs_va        KBiGRU+v_s+v_a  40.7 60.4 27.8 45.1
  variant=kbigru              KBiGRU          38.0 58.0 27.4 43.8
  variant=attention_vs        V_f+v_s         34.5 55.3 26.7 39.6
  variant=soft_attention      SoftAtt         28.5 53.3 25.0 37.1
  variant=mean_pool           MeanPool        30.4 52.0 23.7 35.0

Not run on MSR-VTT itself: score and time of this config are unknown.
"""

from configs import common, refocus_rows
from configs.refocus_rows import RECIPES, ROWS
from vidcap_jax.data.schema import Stream

VARIANTS = {'variant': tuple(ROWS), 'features': ('grid_audio', 'grid', 'sequence'), **RECIPES}
STREAMS = (
  Stream('image', 'grid', (None, 7, 7, 2048), longest=20),
  Stream('audio', 'vector', (128,), optional=True),
)
VOCABULARY = 10_189
RESTARTS = refocus_rows.RESTARTS


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  return refocus_rows.config(common.read_variant(variant, **VARIANTS))
