"""STaTS on MSVD: spatio-temporal and temporo-spatial ranked attention (Tables 1 and 3).

  python -m data_prep.build --format=msvd --annotations=msvd/ --id_map=youtube_mapping.txt \\
      --features=i3d=i3d_rgb/,flow=i3d_flow/,frcnn=frcnn/ --out=data/msvd
  python -m vidcap_jax.main --config=configs/msvd_stats.py:variant=stats,features=i3d \\
      --config.data.dir=data/msvd --workdir=runs/msvd_stats

Data: i3d (I3D RGB) and flow (I3D optical flow), grids 7x7x2048 from Mixed_5c, one for every 16
frames; frcnn (Faster R-CNN), regions of 10 boxes x 2048 every 16 frames. A setting reads the
streams that it names, no others. Splits 1200/100/670.

Settings, and the paper's CIDEr / BLEU-4 / ROUGE-L / METEOR:

  variant=st                      Table 1  0.742 / 0.502 / 0.68  / 0.325
  variant=ts                      Table 1  0.521 / 0.391 / 0.646 / 0.289
  variant=stats (the default)     Table 1  0.802 / 0.526 / 0.695 / 0.335
  variant=st,features=frcnn       Table 1  0.686 / 0.477 / 0.69  / 0.33
  variant=ts,features=frcnn       Table 1  0.439 / 0.376 / 0.633 / 0.274
  variant=stats,features=frcnn    Table 1  0.709 / 0.492 / 0.68  / 0.319
  features=frcnn+flow             Table 3  0.747 / 0.495 / 0.694 / 0.334
  features=i3d+flow               Table 3  0.835 / 0.548 / 0.711 / 0.350

``pooling=`` mean+ranked, ranked, mean, lstm, mean+lstm, temporal or mean+temporal chooses how ST
pools frames, as in Table 2 (configs/msrvtt_stats.py has the paper's scores). ``runlocal`` trains
small on rendered clips with random-weight streams.

Stages: ``xe``, 10 epochs of cross entropy, and ``rl``, 10 more in which METEOR and BLEU-4 are
rewards beside it (self-critical, which the paper calls REINFORCE; METEOR needs Java). ``recipe=xe``
is 20 epochs of cross entropy instead. Not published, and ours: dropout, the weights of the rank
loss, rewards and cross entropy, TS's temperatures, gradient clipping, the most frames, the beam.

Not run on MSVD's features: expected score and time are unknown.
"""

from ml_collections import ConfigDict

from configs import common
from vidcap_jax.data.schema import Stream
from vidcap_jax.models.layers.stats_branches import POOLINGS
from vidcap_jax.models.layers.stats_branches import VARIANTS as BRANCHES

VARIANTS = {
  'variant': BRANCHES,
  'features': ('i3d', 'frcnn', 'i3d+flow', 'frcnn+flow'),
  'pooling': tuple(pooling.replace('_', '+') for pooling in POOLINGS),
  'recipe': ('rl', 'xe'),
}
# A minute, the longest clip's length, at 30 frames a second.
STREAMS = (
  Stream('i3d', 'grid', (None, 7, 7, 2048), longest=112),
  Stream('flow', 'grid', (None, 7, 7, 2048), longest=112),
  Stream('frcnn', 'regions', (None, None, 2048), longest=112, most_regions=10),
)
VOCABULARY = 13_014


def get_config(variant: str = ''):
  """The config; see the module's docstring for the settings."""
  chosen = common.read_variant(variant, **VARIANTS)
  c = stats(common.base(), chosen, STREAMS)
  if chosen['runlocal']:
    run_local(c)
  return c.lock()


def stats(c: ConfigDict, chosen: dict[str, str], streams: tuple[Stream, ...]) -> ConfigDict:
  """Adds the model's settings (see vidcap_jax/models/stats.py) and the paper's training.

  Args:
    chosen: 'variant', 'pooling' and 'features', names of streams with + between them.
    streams: all there are, for their kinds.
  """
  names = chosen['features'].split('+')
  of_kind = lambda kind: tuple(s.name for s in streams if s.kind == kind and s.name in names)  # noqa: E731
  c.model = ConfigDict(
    {
      'name': 'stats',
      'variant': chosen['variant'],  # st | ts | stats
      'pooling': chosen['pooling'].replace('+', '_'),  # of ST's frames over time
      'grid_streams': of_kind('grid'),
      'region_streams': of_kind('regions'),
      'sequence_streams': of_kind('sequence'),
      'categories': 0,
      'hidden': 512,
      'embed': 256,
      'project': 512,
      'attention': 128,
      'rank_margin': 1.0,
      'rank_weight': 0.1,
      'temperature': (1.0, 0.01),  # of TS's choice of a frame, from start to end of training
      'hard_at_test': False,  # TS takes one frame alone in evaluation
      'dropout': 0.5,
    }
  )
  # Batches of 32 captions; several of a video share its features' encoding and nothing else.
  c.data.captions_per_video = 1
  c.data.max_frames = 32
  c.train.batch_size = 32
  c.train.epochs = 20.0
  c.train.scheduled_sampling.name = 'inverse_sigmoid'  # 24 / (24 + exp(epoch / 24)) given words
  c.train.scheduled_sampling.eta = 24.0
  c.optimizer.name = 'rmsprop'
  c.optimizer.learning_rate = 1e-4
  # As PyTorch's RMSprop, which the paper ran: here eps is added under the root, there after it.
  c.optimizer.b2 = 0.99
  c.optimizer.eps = 1e-16
  if chosen.get('recipe') == 'rl':
    c.train.epochs = 10.0
    # The weights of the two rewards and of the cross entropy are not published.
    rewards = {'cider': 0.0, 'bleu4': 1.0, 'meteor': 1.0}
    rl = common.reinforce('xe', epochs=10.0, learning_rate=1e-4, rewards=rewards, cross_entropy=1.0)
    c.order, c.stages.rl = ('xe', 'rl'), rl
  return c


def run_local(c: ConfigDict) -> ConfigDict:
  """The rehearsal, with random-weight streams of the kinds that the model reads."""
  m = c.model
  kinds = {'random_grid': m.grid_streams, 'random_regions': m.region_streams}
  kinds['random_sequence'] = m.sequence_streams
  common.run_local(c, {name: kind for kind, names in kinds.items() for name in names})
  c.data.captions_per_video = 5
  c.train.epochs = 20.0
  if 'rl' in c.stages:
    c.stages.rl.train.epochs = 2.0
    c.stages.rl.optimizer.learning_rate = 4e-4
  c.optimizer.name = 'adam'  # RMSprop's first steps, at such a rate, are too long for so few
  c.optimizer.b2, c.optimizer.eps = 0.999, 1e-8
  return c
