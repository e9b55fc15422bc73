"""Every model and every variant that computes differently, small, with made-up videos.

A new model or variant joins here; ``test_invariants.py`` holds it to what every captioner promises.
"""

import dataclasses

from vidcap_jax import models

V = 11


@dataclasses.dataclass(frozen=True)
class Case:
  """A model and made-up videos for it.

  Attributes:
    settings: as a config's ``model`` section.
    streams: name -> shape of a video, (D,) vector, (T, D) sequence, (T, N, D) regions or grid.
    attention: names of the weights that its steps give.
    seed: of parameters with which the best captions of videos differ.
    first_look: the first step that has them; zeros before.
    draws: whether it draws at random in training, and so is trained by the multi-sample bound.
  """

  name: str
  settings: dict
  streams: dict
  attention: tuple = ()
  seed: int = 3
  first_look: int = 0
  draws: bool = False

  @property
  def blocks(self):
    return models.build(self.settings, V).config.needs.blocks


SIZES = {'hidden': 8, 'embed': 6, 'project': 7, 'attention': 5, 'dropout': 0.5}
VATEX = {'name': 'temporal_spatial', **SIZES, 'global_streams': ('image', 'motion', 'audio')}
# Streams need not be equally long.
STREAMS = {'image': (5, 4), 'motion': (4, 3), 'audio': (3,)}
# The temperature is not as low as it may be: rounding errors are divided by it.
STATS = {'name': 'stats', **SIZES, 'grid_streams': ('i3d',), 'temperature': (1.0, 0.3)}
GRID = {'i3d': (4, 3, 4)}
BOTH_BRANCHES = ('st_spatial', 'ts_temporal', 'ts_spatial', 'branch')
G2L = {'name': 'global2local', **SIZES, 'project_regions': 6, 'aligned': 4}
CLOCK = {'image': (9, 4), 'motion': (9, 3), 'objects': (3, 4, 5)}  # objects of every third frame
GLOBAL, JOINT = ('temporal_2d', 'temporal_3d'), ('temporal', 'temporal_2d', 'temporal_3d')
LOCAL = ('keyframe', 'spatial', *JOINT)


def dual_afr_cases():
  """The model with all its parts, and the paper's baselines: parts left out or replaced."""
  sizes = {key: value for key, value in SIZES.items() if key != 'project'}
  top = {'fc7': (3, 5)}
  # Rows and columns: 7, 3, 2. At a ratio of 2, 3 come to 2, the last of them a half.
  three = {'pool3': (8, 49, 2), 'pool4': (4, 9, 3), 'pool5': (2, 4, 4)}
  two = {name: three[name] for name in ('pool4', 'pool5')}
  both = ('layer', 'spatiotemporal')

  def case(name, streams, kernels=(), attention=(), draws=False, **settings):
    settings |= {'name': 'dual_afr', **sizes, 'layers': tuple(streams), 'kernels': kernels}
    settings['ratios'] = tuple(2**n for n in reversed(range(len(streams))))
    return Case(name, settings, {**top, **streams}, attention, first_look=1, draws=draws)

  yield case('dual_afr-soft', three, (5, 3), both)
  yield case('dual_afr-hard', two, (3,), both, draws=True, choice='hard')
  yield case('dual_afr-pool4', {'pool4': two['pool4']}, (), ('spatiotemporal',))
  yield case('dual_afr-lstm', {}, top='lstm')
  for alignment in ('mlp', 'max', 'average', 'hypercolumn'):
    yield case(f'dual_afr-{alignment}', two, (3,), both, alignment=alignment)


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
  Case('st by mean', {**STATS, 'variant': 'st', 'pooling': 'mean'}, GRID, ('words', 'st_spatial')),
  Case(
    'global', {**G2L, 'alignment': False, 'picks': 0}, {'image': (5, 4), 'motion': (5, 3)}, GLOBAL
  ),
  Case(
    'global_aligned_one_stream',
    {**G2L, 'clip_stream': 'image', 'activation': 'tanh', 'picks': 0},
    {'image': (5, 4)},
    JOINT,
  ),
  Case('global2local', G2L, CLOCK, LOCAL),
  Case('global2local_argmax', {**G2L, 'sampler': 'argmax'}, CLOCK, LOCAL),
  Case(
    'global2local_straight_through',
    {**G2L, 'backward_tau': 0.5, 'renormalise': True, 'activation': 'sigmoid', 'picks': 3},
    CLOCK,
    LOCAL,
  ),
  *dual_afr_cases(),
]
