"""A Transformer over CLIP features of frames, made with your own copy of CLIP's weights.

  vidcap extract --videos=videos --output=features \\
      --streams=image:transformers/openai/clip-vit-base-patch32@uniform=20
  vidcap build --format=msrvtt \\
      --annotations=train_val_videodatainfo.json,test_videodatainfo.json \\
      --min_count=3 --max_words=0 --features=image=features/image --output=data/msrvtt
  vidcap train --config=configs/clip_transformer.py --config.data.dir=data/msrvtt \\
      --workdir=runs/clip_transformer

The first command needs the extras ``video`` and ``torch`` and a folder of weights;
docs/backbones.md says which files and where. Any CLIP of transformers will do, and other features
too: the sizes of a stream are those of the data set.

Data: stream image, a sequence of CLIP's embeddings of 20 frames, 512 channels for ViT-B/32.
``features=grid`` reads the stream cells instead, a grid of the image encoder's 7 x 7 tokens of 768
channels (``cells:transformers/openai/clip-vit-base-patch32/grid``), and ``features=both`` reads
both. The cells of 20 frames are 980 tokens, each of which attends to all: take fewer frames.

Vocabulary: 10,543 words with the 4 special tokens, those of MSR-VTT's captions seen 3 times.

Variants: ``size=small`` (D = 256, 2 + 2 layers) or ``size=base`` (D = 512, 6 + 6 layers);
``recipe=rl`` adds a stage of self-critical training on CIDEr-D with five samples of each video,
whose baseline is the mean of the others. ``runlocal`` trains a small model on rendered clips.

Not tuned: the settings are the usual ones, warm-up and a cosine. Not run on CLIP's published
weights, which have not been at hand; expected score and time are unknown. With random weights the
way from frames to captions is tested (tests/configs/test_clip_transformer.py).
"""

from configs import common, transformer_sizes
from vidcap_jax.data.schema import Stream

VARIANTS = {
  'size': tuple(transformer_sizes.SIZES),
  'features': ('pooled', 'grid', 'both'),
  'recipe': ('xe', 'rl'),
}
_POOLED = Stream('image', 'sequence', (None, 512), longest=20)
_GRID = (None, 7, 7, 768)
STREAMS = (_POOLED, Stream('cells', 'grid', _GRID, longest=20))
VOCABULARY = 10_543


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  chosen = common.read_variant(variant, **VARIANTS)
  c = common.base()
  streams = {'pooled': ('image',), 'grid': ('cells',), 'both': ('image', 'cells')}
  transformer_sizes.transformer(c, chosen['size'], streams[chosen['features']])
  c.train.batch_size = 64
  c.train.epochs = 20.0
  c.train.label_smoothing = 0.1
  transformer_sizes.warm_up(c)
  if chosen['recipe'] == 'rl':
    c.order = (*c.order, 'rl')
    c.stages.rl = common.reinforce(
      'xe', epochs=5.0, learning_rate=1e-5, baseline='others', samples=5
    )
    c.stages.rl.train.batch_size = 32
  if chosen['runlocal']:
    extractors = {'image': 'random_sequence', 'cells': 'random_grid'}
    common.run_local(c, {name: extractors[name] for name in c.model.streams})
  return c.lock()
