"""dualAFR on M-VAD (Table 1).

  python -m vidcap_jax.main --config=configs/mvad_dual_afr.py:ROW --config.data.dir=DIR \\
      --config.train.word_vectors=GoogleNews-vectors-negative300.bin.gz --workdir=DIR

Rows, with what the paper reached in per cent:

  row           BLEU-4  METEOR   CIDEr
  soft            1.94    7.72    7.98  the default
  hard            1.82    7.12    8.12  multi-sample bound, 10 draws
  resnet+lstm     0.81    6.22    5.54  an LSTM reads the frames
  fc7             0.83    6.31    5.96  no context
  fc7+pool2       0.98    6.42    6.01  one layer as it is, z_t = s_t
  fc7+pool3       1.12    6.71    6.97
  fc7+pool4       1.24    6.89    7.12
  fc7+pool5       1.02    6.49    6.48
  mlp             0.41    5.99    5.43  alignment by MLPs of all cells
  maxpool         0.82    6.21    5.55  eq 17
  avgpool         0.91    6.45    6.12  eq 17
  hypercolumn     0.88    6.33    6.24
  soft x 10       2.14    8.22    9.03
  hard x 10       2.08    7.12    9.14

"x 10" combines ten models, trained by --config.seeds=0,1,2,3,4,5,6,7,8,9.

Data: 36,920 / 4,950 / 4,717 videos for training, validation and test.
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

VARIANTS = {'variant': dual_afr_rows.ROWS}
# About as long as the longest of the clips; they last 6 seconds on average.
STREAMS = dual_afr_rows.streams(units=4, windows=7, frames=64)
VOCABULARY = 13_276


def get_config(variant: str = ''):
  """The config; see the module's docstring for the rows."""
  chosen = common.read_variant(variant, **VARIANTS)
  return dual_afr_rows.dual_afr(common.base(), chosen['variant'], bool(chosen['runlocal'])).lock()
