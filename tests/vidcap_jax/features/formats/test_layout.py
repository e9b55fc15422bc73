"""Axes are put in the order of storage; ambiguous shapes are errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vidcap_jax.data.schema import KINDS
from vidcap_jax.errors import DataError
from vidcap_jax.features.formats import layout


@pytest.mark.parametrize(
  ('axes', 'shape', 'kind', 'stored'),
  [
    ('C', (6,), 'vector', (6,)),
    ('C', (1, 6), 'vector', (6,)),
    ('1C', (1, 6), 'vector', (6,)),
    ('TC', (3, 6), 'sequence', (3, 6)),
    ('CT', (6, 3), 'sequence', (3, 6)),
    ('1TC', (1, 3, 6), 'sequence', (3, 6)),
    ('TC11', (3, 6, 1, 1), 'sequence', (3, 6)),
    ('TNC', (3, 2, 6), 'regions', (3, 2, 6)),
    ('CTN', (6, 3, 2), 'regions', (3, 2, 6)),
    ('THWC', (3, 2, 5, 6), 'grid', (3, 2, 5, 6)),
    ('TCHW', (3, 6, 2, 5), 'grid', (3, 2, 5, 6)),
    ('1CTHW', (1, 6, 3, 2, 5), 'grid', (3, 2, 5, 6)),
    ('HWC', (2, 5, 6), 'grid', (1, 2, 5, 6)),
    ('1CHW', (1, 6, 2, 5), 'grid', (1, 2, 5, 6)),
    ('NC', (2, 6), 'regions', (1, 2, 6)),
    ('CN', (6, 2), 'regions', (1, 2, 6)),
  ],
)
def test_order(axes, shape, kind, stored):
  found = layout.parse(axes)
  assert found.kind == kind
  assert found.shape(shape) == stored
  array = np.arange(np.prod(shape)).reshape(shape)
  ordered = found.order(array)
  assert ordered.shape == stored
  # Channel 0 of frame 0 and what comes next to it are where they belong.
  bare = array.reshape([n for n, a in zip(shape, axes.rjust(len(shape), '1')) if a != '1'])
  letters = found.letters
  np.testing.assert_array_equal(
    ordered.reshape([n for n, a in zip(stored, layout.AXES[kind]) if a in letters]),
    np.einsum(f'{letters}->{"".join(a for a in layout.AXES[kind] if a in letters)}', bare),
    strict=True,
  )


@pytest.mark.parametrize('text', ['', 'T', 'TT', 'TCC', 'tc', 'THC', 'TNHWC', '11', 'CTX'])
def test_unknown_layouts(text):
  with pytest.raises(DataError, match='unknown layout'):
    layout.parse(text)


@given(st.permutations('TC1'), st.lists(st.integers(1, 3), max_size=4))
def test_shapes_that_do_not_fit_are_errors(letters, shape):
  axes = layout.parse(''.join(letters))
  fits = len(shape) == 3 and shape[letters.index('1')] == 1
  if fits:
    assert len(axes.order(np.zeros(shape)).shape) == len(KINDS['sequence'])
  else:
    assert axes.shape(tuple(shape)) is None
    with pytest.raises(DataError, match='shape.*layout'):
      axes.order(np.zeros(shape))


@pytest.mark.parametrize(
  ('shapes', 'expected'),
  [
    ([(8,), (8,)], 'C'),
    ([(4, 4), (3, 4)], 'TC'),
    ([(28, 512), (28, 512)], 'TC'),
    ([(28, 512), (28, 512), (28, 511)], 'TC'),
    ([(1, 4, 8), (2, 4, 8)], 'TNC'),
    ([(2, 7, 7, 512)], 'THWC'),
    ([(2, 112, 112, 64)], 'THWC'),
    ([(2, 4, 6, 512)], 'THWC'),
    ([(1, 2), (3, 2), (2, 3, 4)], 'TC'),
  ],
)
def test_layout_is_inferred_from_shapes(shapes, expected):
  assert layout.infer(shapes, None, 'image').axes == expected


@pytest.mark.parametrize(
  ('shapes', 'match'),
  [
    ([(512, 512), (512, 512)], r'\(512, 512\).*--layout=image=TC .*--layout=image=CT'),
    ([(512, 30), (512, 20), (512, 10)], 'second axis.*--layout=image=CT'),
    ([(1, 30, 512), (1, 20, 512)], 'image=1TC .*image=TNC'),
    ([(14, 14, 2048)], 'image=HWC .*image=TNC'),
    ([(2048, 7, 7)], 'image=CHW .*image=TNC'),
    ([(2, 512, 7, 7)], 'image=THWC .*image=TCHW'),
    ([(2, 7, 7, 7)], 'image=THWC .*image=TCHW'),
    ([()], 'arrays with 0 axes.*--layout=image='),
  ],
)
def test_ambiguous_shapes_must_be_declared(shapes, match):
  with pytest.raises(DataError, match=match):
    layout.infer(shapes, None, 'image')
