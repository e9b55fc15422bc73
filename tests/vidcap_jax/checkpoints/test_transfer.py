import re

import jax
import numpy as np
import pytest

from vidcap_jax import models
from vidcap_jax.checkpoints.transfer import transfer
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.errors import DataError
from vidcap_jax.models.captioner import Inputs, init_params
from vidcap_jax.models.sharding import vocabulary_axes

SPECIAL = ('<PAD>', '<BOS>', '<EOS>', '<UNK>')


def vocabulary(*words):
  return Vocabulary((*SPECIAL, *words), 'ptb_like', 1, 20)


def parameters(size, start=0.0):
  """An embedding by rows, an output layer by columns, and a matrix that knows no words."""
  shapes = {'words': {'embedding': (size, 3)}, 'output': {'kernel': (2, size), 'bias': (size,)}}
  shapes['lstm'] = {'kernel': (2, 3)}
  counter = iter(np.arange(start, start + 1000))
  make = lambda shape: np.array([next(counter) for _ in range(np.prod(shape))]).reshape(shape)  # noqa: E731
  return jax.tree.map(
    lambda s: make(s).astype(np.float32), shapes, is_leaf=lambda x: isinstance(x, tuple)
  )


AXES = {'words': {'embedding': 0}, 'output': {'kernel': 1, 'bias': 0}, 'lstm': {'kernel': -1}}


def check(moved, theirs, ours, their_words, our_words):
  """Word by word: theirs where they have the word, ours elsewhere."""
  for i, word in enumerate(our_words.words):
    j = their_words.index.get(word)
    source, at = (ours, i) if j is None else (theirs, j)
    np.testing.assert_array_equal(moved['words']['embedding'][i], source['words']['embedding'][at])
    np.testing.assert_array_equal(
      moved['output']['kernel'][:, i], source['output']['kernel'][:, at]
    )
    np.testing.assert_array_equal(moved['output']['bias'][i], source['output']['bias'][at])
  np.testing.assert_array_equal(moved['lstm']['kernel'], theirs['lstm']['kernel'])


@pytest.mark.parametrize(
  ('old', 'new', 'difference'),
  [
    (['a', 'b', 'c'], ['a', 'b', 'c'], None),
    (['a', 'b', 'c'], ['c', 'a', 'b'], '7 words taken over, 0 new ones .*, 0 old ones dropped'),
    (['a', 'b'], ['x', 'a', 'b', 'y'], '6 words taken over, 2 new ones .*, 0 old ones dropped'),
    (['a', 'b', 'c'], ['c'], '5 words taken over, 0 new ones .*, 2 old ones dropped'),
    (['a', 'b'], ['x', 'y'], '4 words taken over, 2 new ones .*, 2 old ones dropped'),
  ],
)
def test_words_keep_their_parameters(old, new, difference):
  their_words, our_words = vocabulary(*old), vocabulary(*new)
  theirs, ours = parameters(len(their_words)), parameters(len(our_words), start=500)
  before = jax.tree.map(np.copy, (theirs, ours))
  moved, differences = transfer(theirs, ours, AXES, their_words, our_words)
  check(moved, theirs, ours, their_words, our_words)
  jax.tree.map(np.testing.assert_array_equal, (theirs, ours), before)  # nothing changed in place
  assert len(differences) == (difference is not None)
  assert all(re.search(difference, line) for line in differences)


def test_every_difference_is_listed():
  words = vocabulary('a')
  theirs, ours = parameters(5), parameters(5, start=500)
  theirs['lstm']['kernel'] = np.zeros((4, 3), np.float32)
  theirs['output']['kernel'] = np.zeros((6, 5), np.float32)  # the hidden size differs
  theirs['gone'] = {'b': np.zeros(2, np.float32), 'a': np.zeros((1, 1), np.float32)}
  ours['fresh'] = {'bias': np.full(3, 7, np.float32)}
  axes = {**AXES, 'fresh': {'bias': -1}}
  moved, differences = transfer(theirs, ours, axes, words, words)
  assert differences == [
    'fresh/bias (3,): not in the checkpoint, starts from scratch',
    'lstm/kernel: (4, 3) in the checkpoint, (2, 3) here, starts from scratch',
    'output/kernel: (6, 5) in the checkpoint, (2, 5) here, starts from scratch',
    'gone/a (1, 1): only in the checkpoint, dropped',
    'gone/b (2,): only in the checkpoint, dropped',
  ]
  for name in ('lstm', 'fresh'):
    jax.tree.map(np.testing.assert_array_equal, moved[name], ours[name])
  np.testing.assert_array_equal(moved['output']['kernel'], ours['output']['kernel'])
  np.testing.assert_array_equal(moved['output']['bias'], theirs['output']['bias'])
  assert jax.tree.structure(moved) == jax.tree.structure(ours)


def test_our_dtypes_stay():
  theirs = jax.tree.map(lambda x: x.astype(np.float16), parameters(5))
  moved, _ = transfer(theirs, parameters(6), AXES, vocabulary('a'), vocabulary('a', 'b'))
  assert all(x.dtype == np.float32 for x in jax.tree.leaves(moved))


def test_nothing_fits():
  words = vocabulary('a')
  theirs = {'other': {'kernel': np.zeros((2, 3), np.float32)}}
  with pytest.raises(DataError, match='init_from: no parameter of the checkpoint fits this model'):
    transfer(theirs, parameters(5), AXES, words, words)


def test_vocabulary_axes_of_a_model():
  """Axes that grow with the vocabulary are found for each parameter of a model."""
  features = {name: np.zeros((1, 2, 3), np.float32) for name in ('image', 'motion')}
  inputs = Inputs(features, {name: np.ones((1, 2), bool) for name in features})
  settings = {'name': 'temporal_spatial', 'global_streams': ('image',), 'hidden': 11, 'embed': 12}

  def init(size):
    module = models.build({**settings, 'project': 11, 'attention': 12}, size)
    return jax.eval_shape(lambda key: init_params(module, key, inputs), jax.random.key(0))

  axes = vocabulary_axes(init)
  assert axes['words'] == {'embedding': 0}
  assert axes['output'] == {'kernel': 1, 'bias': 0}
  rest = {name: part for name, part in axes.items() if name not in ('words', 'output')}
  assert set(jax.tree.leaves(rest)) == {-1}
