"""Global2Local on MSR-VTT: the rows of Table 1.

  python -m data_prep.build --format=msrvtt --annotations=… --min_count=2 \\
      --features=image=DIR --features=motion=DIR --features=objects=DIR --out=data/msrvtt
  python -m vidcap_jax.main --config=configs/msrvtt_global2local.py --config.data.dir=data/msrvtt \\
      --workdir=runs/g2l

Data: the usual split, 6,513 / 497 / 2,990 videos, words seen twice or more. Streams: image
(Inception-V4, every 5th frame) and motion (3D-ResNeXt-101 of 8 frames, stride 5), sequences of
equally many vectors; objects (Faster R-CNN of Visual Genome), 16 regions of every 15th frame, the
middle one of every three of image: ceil(T / 3) frames of regions for T vectors.

Variants, each a row of Table 1, with the paper's BLEU-4, METEOR, ROUGE-L and CIDEr (x 100):

  variant=global        frames and clips apart         40.1 27.7 59.4 45.2
  variant=alignment     and jointly                    41.7 27.9 60.4 46.8
  variant=local1        and the regions of 1 frame     41.9 27.9 60.6 48.4
  variant=local2        of 2 frames, the default       42.2 28.6 61.1 50.3
  variant=local3        of 3 frames                    42.3 28.1 60.9 50.0
  variant=local2_argmax of 2, chosen without Gumbel    41.1 27.3 59.7 47.1

  features=image        one sequence stream for both frames and clips, for data that has no more;
                        with variant=global or alignment nothing else is needed
  runlocal              a rehearsal on rendered clips with random-weight streams

The paper gives neither batch size nor dropout: those here are ours. Figure 6, the scores under
attention with its smallest weights left out, is python -m vidcap_jax.studies.mask_ratio.

Not run on MSR-VTT itself: expected score and time are unknown. ``:runlocal`` with its scores and
three captions: 1:57 of CPU time on a busy 2-core machine.
"""

from configs import common, global2local_rows
from vidcap_jax.data.schema import Stream

ROWS = {
  'local2': {'picks': 2},
  'global': {'picks': 0, 'alignment': False},
  'alignment': {'picks': 0},
  'local1': {'picks': 1},
  'local3': {'picks': 3},
  'local2_argmax': {'picks': 2, 'sampler': 'argmax'},
}
VARIANTS = {'variant': tuple(ROWS), 'features': ('image_motion', 'image')}
# 30 seconds, the longest clip's length, at 30 frames a second.
STREAMS = (
  Stream('image', 'sequence', (None, 1536), longest=180),
  Stream('motion', 'sequence', (None, 2048), longest=180),
  Stream('objects', 'regions', (None, None, 2048), longest=60, most_regions=16),
)
VOCABULARY = 13_491


def get_config(variant: str = ''):
  """The config; see the module's docstring for the variants."""
  chosen = common.read_variant(variant, **VARIANTS)
  c = global2local_rows.global2local(common.base())
  c.model.update(ROWS[chosen['variant']])
  if chosen['features'] == 'image':
    c.model.clip_stream = 'image'
  if chosen['runlocal']:
    streams = {'image': 'random_sequence', 'motion': 'random_sequence'}
    common.run_local(c, {**streams, 'objects': 'random_regions_of_third'})
    c.model.project_regions = c.model.aligned = 64
  return c.lock()
