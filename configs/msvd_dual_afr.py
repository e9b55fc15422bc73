"""dualAFR on MSVD (YouTube2Text) (Table 1).

  python -m vidcap_jax.main --config=configs/msvd_dual_afr.py:ROW --config.data.dir=DIR \\
      --config.train.word_vectors=GoogleNews-vectors-negative300.bin.gz --workdir=DIR

Rows, with what the paper reached in per cent:

  row           BLEU-4  METEOR   CIDEr
  soft           51.74   36.39   72.18  the default
  hard           51.77   36.41   72.21  multi-sample bound, 10 draws
  resnet+lstm    44.08   30.99   66.88  an LSTM reads the frames
  fc7            45.34   31.21   66.12  no context
  fc7+pool2      45.46   31.53   67.38  one layer as it is, z_t = s_t
  fc7+pool3      48.07   33.52   69.97
  fc7+pool4      48.18   34.47   70.97
  fc7+pool5      47.75   33.35   69.71
  mlp            35.99   23.56   44.21  alignment by MLPs of all cells
  maxpool        45.35   31.50   62.99  eq 17
  avgpool        48.53   33.59   65.07  eq 17
  hypercolumn    44.92   30.18   63.18
  soft x 10      53.94   37.91   78.43
  hard x 10      54.27   38.03   78.31

"x 10" combines ten models, trained by --config.seeds=0,1,2,3,4,5,6,7,8,9.

Data: 1,200 / 100 / 670 videos for training, validation and test.
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
# Videos last a minute at most.
STREAMS = dual_afr_rows.streams(units=8, windows=14, frames=120)
VOCABULARY = 12_594


def get_config(variant: str = ''):
  """The config; see the module's docstring for the rows."""
  chosen = common.read_variant(variant, **VARIANTS)
  return dual_afr_rows.dual_afr(common.base(), chosen['variant'], bool(chosen['runlocal'])).lock()
