"""STaTS on MSR-VTT: spatio-temporal and temporo-spatial ranked attention (Tables 1, 2 and 4).

  vidcap build --format=msrvtt \\
      --annotations=train_val_videodatainfo.json,test_videodatainfo.json \\
      --min_count=3 --max_words=0 \\
      --features=i3d=i3d_rgb/,flow=i3d_flow/,resnet152=resnet152/,c3d=c3d/ --output=data/msrvtt
  vidcap train --config=configs/msrvtt_stats.py:variant=stats,features=i3d \\
      --config.data.dir=data/msrvtt --workdir=runs/msrvtt_stats

Data: grids i3d (I3D RGB) and flow (I3D optical flow), 7x7x2048 from Mixed_5c, one for every 16
frames; resnet152 and c3d, grids too (the paper does not say of which layers); the videos'
categories, which the annotations hold. A variant reads only the streams that it names. Splits
6513/497/2990.

Vocabulary: 10,543 words with the 4 special tokens, of words seen 3 times, the default of the build.
The paper prints neither a number nor a threshold nor a limit of length; no caption is cut.

Variants, with the paper's CIDEr / BLEU-4 / ROUGE-L / METEOR:

  variant=st                              Table 1  0.429 / 0.397 / 0.600 / 0.271
  variant=ts                              Table 1  0.427 / 0.380 / 0.595 / 0.273
  variant=stats (the default)             Table 1  0.434 / 0.401 / 0.604 / 0.275
  variant=st,pooling=mean                 Table 2  0.389 / 0.362 / 0.580 / 0.263
  variant=st,pooling=lstm                 Table 2  0.385 / 0.347 / 0.578 / 0.261
  variant=st,pooling=mean+lstm            Table 2  0.388 / 0.364 / 0.575 / 0.259
  variant=st,pooling=temporal             Table 2  0.382 / 0.368 / 0.580 / 0.258
  variant=st,pooling=mean+temporal        Table 2  0.385 / 0.368 / 0.58  / 0.26
  variant=st,pooling=ranked               Table 2  0.387 / 0.376 / 0.589 / 0.264
  variant=st,pooling=mean+ranked          Table 2  0.404 / 0.376 / 0.592 / 0.268
  features=resnet152                      Table 4  0.445 / 0.392 / 0.597 / 0.279
  features=resnet152+c3d                  Table 4  0.465 / 0.416 / 0.615 / 0.284
  features=i3d+flow                       Table 4  0.438 / 0.410 / 0.611 / 0.276
  features=i3d+flow+category              Table 4  0.451 / 0.417 / 0.612 / 0.280

pooling=mean+ranked is the default, so Table 2's last row and Table 1's ST are one setting with two
figures. Not in the paper: ``features=i3d+category``, and ``features=image`` for any data set with a
sequence stream of that name, where ST pools frames as they are and TS picks one. ``runlocal``
trains a small model on rendered clips, which have no categories, with random-weight streams.

The training is that of configs/msvd_stats.py, with its ``recipe=``.

Not run on MSR-VTT's features: expected score and time are unknown.
"""

from configs import common, stats_rows
from vidcap_jax.data.schema import Stream

VARIANTS = stats_rows.variants(
  *('i3d', 'i3d+flow', 'i3d+category', 'i3d+flow+category'),
  *('resnet152', 'resnet152+c3d', 'image'),
)
# 30 seconds, the longest clip's length, at 30 frames a second. The paper does not give the sizes of
# the last three streams; these are guesses.
STREAMS = (
  Stream('i3d', 'grid', (None, 7, 7, 2048), longest=56),
  Stream('flow', 'grid', (None, 7, 7, 2048), longest=56),
  Stream('resnet152', 'grid', (None, 7, 7, 2048), longest=56),
  Stream('c3d', 'grid', (None, 4, 4, 512), longest=56),
  Stream('image', 'sequence', (None, 2048), longest=56),
)
VOCABULARY = 10_543


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  chosen = common.read_variant(variant, **VARIANTS)
  return stats_rows.config(chosen, STREAMS, categories=20)
