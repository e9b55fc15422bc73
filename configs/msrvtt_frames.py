"""MSR-VTT by frames of 4,827 of its 10,000 videos, with the official splits and all 20 captions.

  python -m benchmarks.frame_pairs --pairs=all_concat --output=frames
  rm -r frames/video9??
  vidcap extract --videos=frames --output=features \\
      --streams=image:efficientnet_lite2@uniform=6,cells:efficientnet_lite2_grid3@uniform=6
  vidcap build --format=msrvtt --min_count=5 --missing=skip \\
      --annotations=train_val_videodatainfo.json,test_videodatainfo.json \\
      --features=image=features/image,cells=features/cells --output=data/msrvtt_frames
  vidcap train --config=configs/msrvtt_frames.py \\
      --config.data.dir=data/msrvtt_frames --workdir=runs/msrvtt_frames

Data: 3,110 videos of the official training split, 244 of validation and 1,432 of test. The second
command leaves out video900 to video999, by which configs/msrvtt1000.py is validated. Videos have 2
to 38 frames, 5 on average, which the collection's authors chose for another task: without motion
and sound, and not evenly spread. Scores are not comparable with those of the whole
data set. Streams: image, the mean of EfficientNet-Lite2's last feature map, a vector for each of at
most six frames, and cells, the means of 3 x 3 blocks of that map.

Vocabulary: 5,049 words with the 4 special tokens, those of the training captions seen 5 times.

Variants: ``model=transformer``, the default; ``updown``, bottom-up and top-down attention, with
cells as regions; ``spatial``, the VATEX model's attention over frames and cells;
``stats|refocus|dual_afr|global2local``, the other papers' models as far as one sequence and one
grid allow, with equal sizes and training. ``recipe=rl`` adds self-critical training on CIDEr-D and
BLEU-4, which starts from the best epoch. ``runlocal`` trains a small model on rendered clips.

Measured with ``model=transformer``, seed 0, four epochs (``--config.train.epochs=4``), beam 5: test
CIDEr 0.339, BLEU-4 0.338, METEOR 0.241, ROUGE-L 0.558 (best constant caption: CIDEr 0.117), 52
minutes of one core without AVX-512. ``recipe=rl``, from there: 0.367, 0.342, 0.244, 0.566, 21
minutes of a core with AVX-512. The others have not been trained to the end. More:
docs/results/msrvtt_frames.md.
"""

from configs import common, comparisons
from vidcap_jax.data.schema import Stream

VARIANTS = {
  'model': ('transformer', 'updown', 'spatial', 'stats', 'refocus', 'dual_afr', 'global2local'),
  'recipe': ('xe', 'rl'),
}
STREAMS = (
  Stream('image', 'sequence', (None, 1280), longest=6),
  Stream('cells', 'grid', (None, 3, 3, 1280), longest=6),
)
VOCABULARY = 5_049
_WHOLE = {'split': 'test', 'note': 'all 2,990 videos, other features'}
PUBLISHED = (
  {'row': 'X-modaler, LSTM with temporal attention', 'scores': {'CIDEr': 42.9}, **_WHOLE},
  {'row': 'X-modaler, Transformer', 'scores': {'CIDEr': 44.0}, **_WHOLE},
  {'row': 'SwinBERT', 'scores': {'CIDEr': 53.8}, **_WHOLE},
)
RESTARTS = {'learning rate': 'in each stage it falls by a cosine of its own'}


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  return comparisons.config(
    common.read_variant(variant, **VARIANTS), STREAMS, epochs=10.0, rl_epochs=2.0
  )
