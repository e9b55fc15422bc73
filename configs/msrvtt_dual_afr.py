"""dualAFR on MSR-VTT (Table 2).

  python -m vidcap_jax.main --config=configs/msrvtt_dual_afr.py:ROW --config.data.dir=DIR \\
      --config.train.word_vectors=GoogleNews-vectors-negative300.bin.gz --workdir=DIR

Rows, with what the paper reached in per cent:

  row           BLEU-4  METEOR   CIDEr
  soft           43.72   29.67   50.21  the default
  hard           43.89   28.71   50.29  multi-sample bound, 10 draws
  resnet+lstm    39.54   26.59   45.22  an LSTM reads the frames
  fc7            40.17   26.86   45.95  no context
  fc7+pool2      40.43   26.93   47.15  one layer as it is, z_t = s_t
  fc7+pool3      42.04   27.18   48.93
  fc7+pool4      41.98   27.42   48.21
  fc7+pool5      40.83   27.01   47.86
  soft x 10      44.99   30.16   51.13
  hard x 10      45.01   29.98   51.41

"x 10" combines ten models, trained by --config.seeds=0,1,2,3,4,5,6,7,8,9.

Data: 5,513 training and 1,000 test videos, both carved from the 6,513 of the standard training
split, and the 497 for validation.
Captions in lower case without punctuation, all words kept (--min_count=1).
Streams: C3D of Sports-1M on the whole video, 112 x 112, 2 frames a second. Of N frames: pool2
(28 x 28 x N/2 x 128), pool3 (14 x 14 x N/4 x 256), pool4 (7 x 7 x N/8 x 512), pool5
(4 x 4 x N/16 x 512), grids on one clock; fc7, a sequence of 4096 numbers for each window of 16
frames, 8 apart. Row resnet+lstm reads resnet alone, a sequence of 2048 numbers a frame.

Not run on the real data: score and time are unknown. Nearly all of a step is pool2's convolution,
0.28 TFLOP for every 8 seconds of a video, padded to the longest, and about as much backward:
--config.train.dtype=bfloat16 and --config.data.max_frames (frames of pool2, one a second) help.
``:runlocal``, or with a row ``:hard,runlocal``, trains it small on rendered clips with
random-weight layers of the same ratios: three minutes of CPU time.
"""

from configs import common, dual_afr_rows

VARIANTS = {'variant': dual_afr_rows.ROWS[:8]}
# Videos last 30 seconds at most.
STREAMS = dual_afr_rows.streams(units=4, windows=6, frames=60)
VOCABULARY = 8_071


def get_config(variant: str = ''):
  """The config; see the module's docstring for the rows."""
  chosen = common.read_variant(variant, **VARIANTS)
  return dual_afr_rows.dual_afr(common.base(), chosen['variant'], bool(chosen['runlocal'])).lock()
