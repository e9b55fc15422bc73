"""dualAFR on MSVD (YouTube2Text), MSR-VTT and M-VAD (Tables 1 and 2).

  vidcap build --format=msvd --annotations=DIR \\
      --min_count=1 --max_words=0 --leak_words_of=val,test \\
      --blocks=pool2=8,pool3=4,pool4=2,pool5=1 \\
      --features=pool2=DIR,pool3=DIR,pool4=DIR,pool5=DIR,fc7=DIR --output=data/msvd
  vidcap train --config=configs/dual_afr.py:data=msvd,variant=soft \\
      --config.data.dir=data/msvd --workdir=DIR \\
      --config.train.word_vectors=GoogleNews-vectors-negative300.bin.gz

The other data sets:

  vidcap build --format=msrvtt --annotations=train_val_videodatainfo.json \\
      --splits=msrvtt_dual_afr --min_count=4 --max_words=0 \\
      --blocks=pool2=8,pool3=4,pool4=2,pool5=1 \\
      --features=pool2=DIR,pool3=DIR,pool4=DIR,pool5=DIR,fc7=DIR --output=data/msrvtt
  vidcap build --format=lsmdc --annotations=train.txt,valid.txt,test.txt \\
      --min_count=1 --max_words=0 --blocks=pool2=8,pool3=4,pool4=2,pool5=1 \\
      --features=pool2=DIR,pool3=DIR,pool4=DIR,pool5=DIR,fc7=DIR --output=data/mvad

As published, gradients are clipped at a norm of 5 and features are not standardised.

``data=`` msvd (the default), msrvtt or mvad chooses the data set, ``variant=`` a row. The paper's
BLEU-4, METEOR and CIDEr in per cent:

  variant=              msvd              mvad             msrvtt
  soft           51.74 36.39 72.18   1.94 7.72 7.98   43.72 29.67 50.21
  hard           51.77 36.41 72.21   1.82 7.12 8.12   43.89 28.71 50.29
  resnet+lstm    44.08 30.99 66.88   0.81 6.22 5.54   39.54 26.59 45.22
  fc7            45.34 31.21 66.12   0.83 6.31 5.96   40.17 26.86 45.95
  fc7+pool2      45.46 31.53 67.38   0.98 6.42 6.01   40.43 26.93 47.15
  fc7+pool3      48.07 33.52 69.97   1.12 6.71 6.97   42.04 27.18 48.93
  fc7+pool4      48.18 34.47 70.97   1.24 6.89 7.12   41.98 27.42 48.21
  fc7+pool5      47.75 33.35 69.71   1.02 6.49 6.48   40.83 27.01 47.86
  mlp            35.99 23.56 44.21   0.41 5.99 5.43
  maxpool        45.35 31.50 62.99   0.82 6.21 5.55
  avgpool        48.53 33.59 65.07   0.91 6.45 6.12
  hypercolumn    44.92 30.18 63.18   0.88 6.33 6.24
  soft x 10      53.94 37.91 78.43   2.14 8.22 9.03   44.99 30.16 51.13
  hard x 10      54.27 38.03 78.31   2.08 7.12 9.14   45.01 29.98 51.41

soft is the default. hard is trained by the multi-sample bound with 10 draws. In resnet+lstm an LSTM
reads the frames; fc7 has no context; fc7+LAYER reads one layer as it is, z_t = s_t. The other rows
align layers by MLPs of all cells (mlp), by equation 17 (maxpool, avgpool) or as hypercolumns.
"x 10" is an ensemble of ten models, trained by --config.seeds=0,1,2,3,4,5,6,7,8,9.

Data, videos for training, validation and test: MSVD 1,200 / 100 / 670; M-VAD 36,920 / 4,950 /
4,717; MSR-VTT 5,513 / 497 / 1,000, where training and test videos are both taken from the 6,513 of
the standard training split, here the first 5,513 and the last 1,000: the paper's are not published.
Captions are in lower case without punctuation.

Vocabulary: the paper prints 12,594 words for MSVD, 8,071 for MSR-VTT and 13,276 for M-VAD, and
neither a threshold nor a limit of length. The commands cut no caption; their numbers include the 4
special tokens.
- MSVD 12,596, of all three splits: the paper's number is reached with 2 special tokens. The words
  of the test leak into it. For results of your own leave --leak_words_of out: 9,466.
- MSR-VTT 8,209. All words would be 21,410, so the paper left rare words out; its threshold and its
  videos are not known. --max_words=18 would give 8,071, but its number for MSVD needs every word of
  uncut captions. --min_count=5 --leak_words_of=val,test would give 8,108.
- M-VAD was not at hand, so the config has the paper's number.
  ``python -m benchmarks.vocabularies --format=lsmdc --annotations=…`` prints what each threshold
  gives, with and without the other splits.

Streams: C3D of Sports-1M on the whole video, whole frames of 112 x 112, 2 frames a second (the
extractors c3d_whole_fc7, c3d_whole_pool2 …). For N frames: pool2
(28 x 28 x N/2 x 128), pool3 (14 x 14 x N/4 x 256), pool4 (7 x 7 x N/8 x 512) and pool5
(4 x 4 x N/16 x 512), grids aligned in time; fc7, a sequence of 4096 numbers for each window of 16
frames, 8 apart. resnet+lstm reads only resnet, a sequence of 2048 numbers a frame.

Not run on the real data: score and time are unknown. Most of a step is pool2's convolution, which
is computed in the frequency domain (docs/models.md): --config.train.dtype=bfloat16 and
--config.data.max_frames (frames of pool2, one a second) reduce it;
--config.model.convolution=direct computes it as the paper writes it, at 30 times the operations.
``:runlocal``, or with other parts ``:hard,runlocal``, trains a small model on rendered clips
with random-weight layers of the same ratios: three minutes of CPU time.
"""

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.data.schema import Stream

LAYERS = {'pool2': 8, 'pool3': 4, 'pool4': 2, 'pool5': 1}  # layer -> its entry of model.ratios
# Rows of Table 1 with another alignment -> model.alignment. Table 2, MSR-VTT's, has none of them.
ALIGNED = {
  'mlp': 'mlp',
  'maxpool': 'max',
  'avgpool': 'average',
  'hypercolumn': 'hypercolumn',
}
ROWS = (
  ('soft', 'hard', 'resnet+lstm', 'fc7')
  + tuple(f'fc7+{layer}' for layer in LAYERS)
  + tuple(ALIGNED)
)


def streams(units: int, windows: int, frames: int) -> tuple[Stream, ...]:
  """The streams of all rows.

  Args:
    units: frames of pool5 in the longest video.
    windows: vectors of fc7 in it.
    frames: vectors of resnet in it.
  """
  shapes = {'pool2': (28, 128), 'pool3': (14, 256), 'pool4': (7, 512), 'pool5': (4, 512)}
  return (
    *(
      Stream(name, 'grid', (None, cells, cells, channels), longest=units * LAYERS[name])
      for name, (cells, channels) in shapes.items()
    ),
    Stream('fc7', 'sequence', (None, 4096), longest=windows),
    Stream('resnet', 'sequence', (None, 2048), longest=frames),
  )


VARIANTS = {'data': ('msvd', 'msrvtt', 'mvad'), 'variant': ROWS}
STREAMS = {
  'msvd': streams(units=8, windows=14, frames=120),  # videos last a minute at most
  'msrvtt': streams(units=4, windows=6, frames=60),  # 30 seconds at most
  # About as long as the longest of the clips; they last 6 seconds on average.
  'mvad': streams(units=4, windows=7, frames=64),
}
VOCABULARY = {'msvd': 12_596, 'msrvtt': 8_209, 'mvad': 13_276}


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  # A data set changes no setting: the paper trains in the same way on all three.
  chosen = common.read_variant(variant, **VARIANTS)
  small = bool(chosen['runlocal'])
  return dual_afr(common.paper_base(small=small), chosen['variant'], small).lock()


def dual_afr(c: ConfigDict, row: str = 'soft', runlocal: bool = False) -> ConfigDict:
  """Adds dualAFR's settings (see vidcap_jax/models/dual_afr.py) and the paper's training.

  The paper gives no dropout, attention size, beam or patience of early stopping; those here were
  chosen for this config.

  Args:
    row: one of ``ROWS``.
    runlocal: rendered clips and aligned random-weight layers of the same ratios.
  """
  single_layer = row.removeprefix('fc7+') if row.startswith('fc7+') else None
  layers = dict(LAYERS)
  if row in ('fc7', 'resnet+lstm') or single_layer:
    layers = {single_layer: 1} if single_layer else {}
  c.model = ConfigDict(
    {
      'name': 'dual_afr',
      'choice': 'hard' if row == 'hard' else 'soft',
      'layers': tuple(layers),
      'ratios': tuple(layers.values()),
      'kernels': (7, 5, 3) if len(layers) > 1 else (),
      'alignment': ALIGNED.get(row, 'convolution'),
      'embed_last': row in ALIGNED,  # equation 18 is of every layer, the last one too
      'convolution': 'tiles',  # or 'direct', the same values at many times the operations
      'top_stream': 'resnet' if row == 'resnet+lstm' else 'fc7',
      'top': 'lstm' if row == 'resnet+lstm' else 'mean',  # over the stream's vectors
      'hidden': 512,
      'embed': 300,
      'attention': 512,
      'dropout': 0.5,
      'init_scale': 0.01,
    }
  )
  if row == 'hard':
    c.objective = ConfigDict({'name': 'multi_sample', 'draws': 10})
  c.data.captions_per_video = 1  # a batch is 32 pairs of video and caption
  c.train.batch_size = 32
  c.train.epochs = 30.0
  c.eval.patience = 5
  c.optimizer.learning_rate = 2e-4
  c.optimizer.clip_norm = 5.0  # of the gradient; "the norm of the parameter vector" in the paper
  if runlocal:
    extractors = {layer: f'random_{layer}' for layer in layers}
    common.run_local(c, {**extractors, c.model.top_stream: 'random_sequence'})
    c.data.captions_per_video = 5
    c.model.init_scale = 0.25  # 0.01 takes longer to leave than these few steps
  return c
