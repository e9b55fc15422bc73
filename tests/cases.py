"""A small case of every model, and of every variant that computes differently.

Add a case here for a new model or variant: ``vidcap_jax/models/test_captioner.py`` runs its tests,
which hold for all captioners, on every case.
"""

import dataclasses

from vidcap_jax import models

V = 11


@dataclasses.dataclass(frozen=True)
class Case:
  """A model, and the shapes of the videos it is tested with.

  Attributes:
    settings: as a config's ``model`` section.
    streams: name -> shape of a video, (D,) vector, (T, D) sequence, (T, N, D) regions or grid.
    attention: names of the attention weights that its steps return.
    seed: of the parameters, chosen so that the best captions of videos differ.
    first_attention: the first step with attention weights; they are zeros before.
    no_gradient: modules that cross entropy gives no gradient, as their choices are maxima.
    key_frames: given key frames of the videos, -1 for unknown; repeated as needed.
    draws: whether training makes random choices, so that the objective is multi_sample.
  """

  name: str
  settings: dict
  streams: dict
  attention: tuple = ()
  seed: int = 3
  first_attention: int = 0
  no_gradient: tuple = ()
  key_frames: tuple = ()
  draws: bool = False

  @property
  def blocks(self):
    return models.build(self.settings, V).config.needs.blocks


SIZES = {'hidden': 8, 'embed': 6, 'project': 7, 'attention': 5, 'dropout': 0.5}
VATEX = {'name': 'temporal_spatial', **SIZES, 'global_streams': ('image', 'motion', 'audio')}
# Streams need not be equally long.
STREAMS = {'image': (5, 4), 'motion': (4, 3), 'audio': (3,)}
# The temperature is not as low as in the paper, as rounding errors are divided by it.
STATS = {'name': 'stats', **SIZES, 'grid_streams': ('i3d',), 'temperature': (1.0, 0.3)}
GRID = {'i3d': (4, 3, 4)}
BOTH_BRANCHES = ('st_spatial', 'ts_temporal', 'ts_spatial', 'branch')
# At the paper's temperature of 1e-4 rounding errors are multiplied by 10,000 in the gradient.
G2L = {'name': 'global2local', **SIZES, 'project_regions': 6, 'aligned': 4}
CLOCK = {'image': (9, 4), 'motion': (9, 3), 'objects': (3, 4, 5)}  # objects of every third frame
GLOBAL = ('temporal_2d', 'temporal_3d')
LOCAL = ('keyframe', 'spatial', 'temporal', *GLOBAL)
VRE = {
  'name': 'refocus',
  'hidden': 8,
  'embed': 8,  # equal to hidden: the video's code replaces the first word
  'attention': 5,
  'dropout': 0.5,
  'spatial_stream': '',
  'audio_stream': '',
}
CELLS = {'spatial_stream': 'image'}
HEARD = {**CELLS, 'audio_stream': 'audio'}
SEEN_AND_HEARD = {'image': (5, 4, 6), 'audio': (3,)}


def dual_afr_cases():
  """The whole model and the paper's baselines, in which parts are removed or replaced."""
  sizes = {key: value for key, value in SIZES.items() if key != 'project'}
  top = {'fc7': (3, 5)}
  # Grids of 7, 3 and 2 rows. At a ratio of 2, 3 rows are aligned to 2: the last window is cut.
  three = {'pool3': (8, 49, 2), 'pool4': (4, 9, 3), 'pool5': (2, 4, 4)}
  two = {name: three[name] for name in ('pool4', 'pool5')}
  both = ('layer', 'spatiotemporal')

  def case(name, streams, kernels=(), attention=(), draws=False, **settings):
    settings |= {'name': 'dual_afr', **sizes, 'layers': tuple(streams), 'kernels': kernels}
    settings['ratios'] = tuple(2**n for n in reversed(range(len(streams))))
    return Case(name, settings, {**top, **streams}, attention, first_attention=1, draws=draws)

  yield case('dual_afr-soft', three, (5, 3), both)
  yield case('dual_afr-hard', two, (3,), both, draws=True, choice='hard')
  yield case('dual_afr-pool4', {'pool4': two['pool4']}, (), ('spatiotemporal',))
  yield case('dual_afr-one_sequence', top, (), ('spatiotemporal',))
  yield case('dual_afr-lstm', {}, top='lstm')
  for alignment in ('mlp', 'max', 'average', 'hypercolumn'):
    yield case(f'dual_afr-{alignment}', two, (3,), both, alignment=alignment, embed_last=True)


TRANSFORMER = {
  'name': 'transformer',
  'streams': ('image',),
  'hidden': 8,
  'embed': 8,
  'heads': 2,
  'feed_forward': 12,
  'encoder_layers': 1,
  'decoder_layers': 2,
  'dropout': 0.5,
}
UPDOWN = {
  'name': 'updown',
  **SIZES,
  'global_streams': ('audio', 'boxes'),
  'attended_stream': 'boxes',
}

CASES = [
  Case('vanilla', {**VATEX, 'variant': 'vanilla'}, STREAMS),
  Case('temporal', {**VATEX, 'variant': 'temporal'}, STREAMS, ('temporal',)),
  Case('spatial', {**VATEX, 'variant': 'spatial'}, {**STREAMS, 'objects': (3, 4, 5)}, ('spatial',)),
  Case('st', {**STATS, 'variant': 'st'}, GRID, ('words', 'st_spatial')),
  Case('ts', {**STATS, 'variant': 'ts'}, GRID, ('words', 'ts_temporal', 'ts_spatial')),
  Case('stats', STATS, GRID, ('words', *BOTH_BRANCHES), seed=4),
  Case(
    'stats on regions',
    {**STATS, 'grid_streams': (), 'region_streams': ('boxes',)},
    {'boxes': (3, 4, 5)},
    ('words', *BOTH_BRANCHES),
  ),
  Case(
    'stats on a sequence',
    {**STATS, 'grid_streams': (), 'sequence_streams': ('image',)},
    {'image': (5, 4)},
    ('words', 'ts_temporal', 'branch'),
    seed=4,
  ),
  Case(
    'stats on two streams with categories',
    {**STATS, 'sequence_streams': ('image',), 'categories': 3},
    {**GRID, 'image': (5, 4)},
    (
      'words',
      *(f'i3d/{name}' for name in BOTH_BRANCHES),
      *(f'image/{name}' for name in ('ts_temporal', 'branch')),
    ),
  ),
  Case(
    'st by temporal attention',
    {**STATS, 'variant': 'st', 'pooling': 'temporal'},
    GRID,
    ('words', 'st_temporal'),
  ),
  Case(
    'global',
    {**G2L, 'clip_stream': 'image', 'alignment': False, 'activation': 'tanh', 'picks': 0},
    {'image': (5, 4)},
    GLOBAL,
  ),
  Case('global2local', {**G2L, 'tau': 0.01}, CLOCK, LOCAL),
  Case('global2local_argmax', {**G2L, 'sampler': 'argmax'}, CLOCK, LOCAL),
  Case(
    'global2local_straight_through',
    {**G2L, 'backward_tau': 0.5, 'renormalise': True, 'activation': 'sigmoid', 'picks': 3},
    CLOCK,
    LOCAL,
  ),
  *dual_afr_cases(),
  Case('mean_pool', {**VRE, 'passes': 0, 'temporal': 'mean'}, {'image': (5, 4)}),
  Case(
    'attention_vs',
    {**VRE, **CELLS, 'passes': 0},
    {'image': (5, 4, 6)},
    ('spatial', 'temporal'),
  ),
  Case('kbigru', {**VRE, 'passes': 1}, {'image': (5, 4)}, ('temporal',)),
  Case('kbigru_vs_va', {**VRE, **HEARD, 'passes': 1}, SEEN_AND_HEARD, ('spatial', 'temporal')),
  Case(
    'refocus',
    {**VRE, **HEARD},
    SEEN_AND_HEARD,
    ('keyframe', 'spatial', 'temporal'),
    no_gradient=('refocus',),
  ),
  Case(
    'refocus_key_frames_given',
    VRE,
    {'image': (5, 4)},
    ('keyframe', 'temporal'),
    no_gradient=('refocus',),
    key_frames=(4, -1, 0, 0, 1),
  ),
  Case(
    'refocus_key_frames_drawn',
    {**VRE, 'sampler': 'categorical'},
    {'image': (5, 4)},
    ('keyframe', 'temporal'),
    no_gradient=('refocus',),
  ),
  Case('transformer', TRANSFORMER, {'image': (5, 4)}, ('cross',)),
  Case(
    'transformer_all_kinds',
    {
      **TRANSFORMER,
      'streams': ('image', 'audio', 'i3d'),
      'region_streams': ('boxes',),
      'embed': 6,
      'encoder_layers': 2,
      'decoder_layers': 1,
      'activation': 'relu',
    },
    {'image': (5, 4), 'audio': (3,), **GRID, 'boxes': (3, 4, 5)},
    ('cross',),
    seed=11,
  ),
  Case(
    'transformer_tied',
    {**TRANSFORMER, 'streams': ('i3d',), 'tied': True, 'encoder_layers': 0},
    GRID,
    ('cross',),
    seed=8,
  ),
  Case(
    'transformer_of_a_set',
    {
      **TRANSFORMER,
      'streams': ('image', 'i3d'),
      'stream_activation': 'relu',
      'stream_positions': False,
      'norm': 'deviation',
    },
    {'image': (5, 4), **GRID},
    ('cross',),
    seed=8,
  ),
  Case('updown', UPDOWN, {'audio': (3,), 'boxes': (3, 4, 5)}, ('entries',)),
  Case(
    'updown_sequence',
    {**UPDOWN, 'global_streams': ('image',), 'attended_stream': 'image'},
    {'image': (5, 4)},
    ('entries',),
  ),
]

# One or more cases of every model, with most of its parts; all other cases are marked slow.
EVERY_TIME = (
  'vanilla',
  'temporal',
  'spatial',
  'stats',
  'global2local',
  'dual_afr-soft',
  'refocus',
  'transformer',
  'updown',
)
