"""Flickr8k, the whole data set: 8,091 pictures with five captions each.

  vidcap extract --videos=Images --output=features \\
      --streams=image:efficientnet_lite2@every=1,cells:efficientnet_lite2_grid@every=1
  vidcap build --format=flickr --annotations=captions.txt --min_count=5 \\
      --missing=skip \\
      --splits=Flickr_8k.trainImages.txt,Flickr_8k.devImages.txt,Flickr_8k.testImages.txt \\
      --features=image=features/image,cells=features/cells --output=data/flickr8k
  vidcap train --config=configs/flickr8k.py --config.data.dir=data/flickr8k \\
      --workdir=runs/flickr8k

Data: 6,000 pictures for training, 1,000 for validation and 1,000 for test, the standard split;
stream image, the mean of EfficientNet-Lite2's last feature map, and cells, the map itself, 9 x 9.
A picture is a video of one frame.

Vocabulary: 2,534 words with the 4 special tokens, those of the training captions seen 5 times.

Variants: ``model=transformer``, the default; ``updown``, bottom-up and top-down attention, with
cells as regions; ``spatial``, the VATEX model's attention over cells;
``stats|refocus|dual_afr|global2local``, the other papers' models as far as one picture and one grid
allow: attention over frames and the choice of key frames have nothing to choose from. ``updown``
and the papers' models have equal sizes and training. ``recipe=rl`` adds self-critical training on
CIDEr-D and BLEU-4, which starts from the best epoch. ``runlocal`` trains a small model on rendered
clips.

Measured with ``model=transformer``, seed 0, best epoch of ten by CIDEr of validation, beam 5: test
CIDEr 0.544, BLEU-4 0.212, METEOR 0.204, ROUGE-L 0.463 (best constant caption: CIDEr 0.137). Time:
74 minutes of a core without AVX-512, 45 with it. With ``recipe=rl``, seed 1, CIDEr 0.594, BLEU-4
0.239, METEOR 0.206, ROUGE-L 0.475, two epochs in 13 minutes more. With a constant rate
(``--config.stages.rl.optimizer.schedule.name=constant``) it has 0.553, 0.223, and seed 0 0.574,
0.234; ``model=global2local,recipe=rl`` 0.505, 0.205, 25 minutes more than cross entropy alone, and
``model=dual_afr,recipe=rl`` 0.495, 0.205, 20 minutes more. Cross entropy of the others: with
``model=spatial`` CIDEr 0.477, BLEU-4 0.199 (three seeds), ten epochs in 57 minutes; with
``model=refocus`` 0.498, 0.203, and ``model=stats`` 0.476, 0.198, ten epochs in about 60 and 50
minutes of a busy core; with ``model=global2local`` 0.488, 0.194, ``model=dual_afr`` 0.482, 0.195,
and ``model=updown`` 0.468, 0.199, ten epochs in 73, 58 and 73 minutes of a (for ``updown`` busy)
core without AVX-512. More: docs/results/flickr8k.md.
"""

from configs import common, comparisons
from vidcap_jax.data.schema import Stream

VARIANTS = {
  'model': ('transformer', 'updown', 'spatial', 'stats', 'refocus', 'dual_afr', 'global2local'),
  'recipe': ('xe', 'rl'),
}
STREAMS = (
  Stream('image', 'sequence', (None, 1280), longest=1),
  Stream('cells', 'grid', (None, 9, 9, 1280), longest=1),
)
VOCABULARY = 2_534
_SPLIT = {'split': 'test'}
PUBLISHED = (
  {
    'row': 'NeuralTalk (Karpathy and Fei-Fei 2015)',
    'scores': {'BLEU_4': 16.0, 'METEOR': 16.7, 'CIDEr': 31.8},
    'note': 'one vector of VGG',
    **_SPLIT,
  },
  {
    'row': 'gLSTM (Jia et al. 2015)',
    'scores': {'BLEU_4': 21.6, 'METEOR': 20.2},
    'note': 'one vector of VGG, guided by retrieved words',
    **_SPLIT,
  },
  {
    'row': 'Show, Attend and Tell, soft (Xu et al. 2015)',
    'scores': {'BLEU_4': 19.5, 'METEOR': 18.93},
    'note': '14 x 14 cells of VGG',
    **_SPLIT,
  },
  {
    'row': 'Show, Attend and Tell, hard (Xu et al. 2015)',
    'scores': {'BLEU_4': 21.3, 'METEOR': 20.3},
    'note': '14 x 14 cells of VGG',
    **_SPLIT,
  },
)
RESTARTS = {'learning rate': 'in each stage it falls by a cosine of its own'}


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  return comparisons.config(
    common.read_variant(variant, **VARIANTS), STREAMS, epochs=10.0, rl_epochs=2.0
  )
