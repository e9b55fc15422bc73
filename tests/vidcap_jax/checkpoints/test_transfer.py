"""Parameters go from one vocabulary and model to another, word by word."""

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


def check(moved, checkpoint_params, initial_params, checkpoint_vocabulary, new_vocabulary):
  """Word by word: the checkpoint's where it has the word, the initial ones elsewhere."""
  for i, word in enumerate(new_vocabulary.words):
    j = checkpoint_vocabulary.index.get(word)
    source, at = (initial_params, i) if j is None else (checkpoint_params, j)
    np.testing.assert_array_equal(moved['words']['embedding'][i], source['words']['embedding'][at])
    np.testing.assert_array_equal(
      moved['output']['kernel'][:, i], source['output']['kernel'][:, at]
    )
    np.testing.assert_array_equal(moved['output']['bias'][i], source['output']['bias'][at])
  np.testing.assert_array_equal(moved['lstm']['kernel'], checkpoint_params['lstm']['kernel'])


@pytest.mark.parametrize(
  ('old', 'new', 'shared_new_dropped'),
  [
    (['a', 'b', 'c'], ['a', 'b', 'c'], None),
    (['a', 'b', 'c'], ['c', 'a', 'b'], ['7', '0', '0']),
    (['a', 'b'], ['x', 'a', 'b', 'y'], ['6', '2', '0']),
    (['a', 'b', 'c'], ['c'], ['5', '0', '2']),
    (['a', 'b'], ['x', 'y'], ['4', '2', '2']),
  ],
)
def test_words_keep_their_parameters(old, new, shared_new_dropped):
  checkpoint_vocabulary, new_vocabulary = vocabulary(*old), vocabulary(*new)
  checkpoint_params = parameters(len(checkpoint_vocabulary))
  initial_params = parameters(len(new_vocabulary), start=500)
  before = jax.tree.map(np.copy, (checkpoint_params, initial_params))
  moved, differences = transfer(
    checkpoint_params, initial_params, AXES, checkpoint_vocabulary, new_vocabulary
  )
  check(moved, checkpoint_params, initial_params, checkpoint_vocabulary, new_vocabulary)
  # Nothing is changed in place.
  jax.tree.map(np.testing.assert_array_equal, (checkpoint_params, initial_params), before)
  assert [re.findall(r'\d+', line) for line in differences] == (
    [] if shared_new_dropped is None else [shared_new_dropped]
  )


def test_every_difference_is_listed():
  words = vocabulary('a')
  checkpoint_params, initial_params = parameters(5), parameters(5, start=500)
  checkpoint_params['lstm']['kernel'] = np.zeros((4, 3), np.float32)
  checkpoint_params['output']['kernel'] = np.zeros((6, 5), np.float32)  # the hidden size differs
  checkpoint_params['gone'] = {'b': np.zeros(2, np.float32), 'a': np.zeros((1, 1), np.float32)}
  initial_params['fresh'] = {'bias': np.full(3, 7, np.float32)}
  axes = {**AXES, 'fresh': {'bias': -1}}
  moved, differences = transfer(checkpoint_params, initial_params, axes, words, words)
  assert differences == [
    'fresh/bias (3,): not in the checkpoint, starts from scratch',
    'lstm/kernel: (4, 3) in the checkpoint, (2, 3) here, starts from scratch',
    'output/kernel: (6, 5) in the checkpoint, (2, 5) here, starts from scratch',
    'gone/a (1, 1): only in the checkpoint, dropped',
    'gone/b (2,): only in the checkpoint, dropped',
  ]
  for name in ('lstm', 'fresh'):
    jax.tree.map(np.testing.assert_array_equal, moved[name], initial_params[name])
  np.testing.assert_array_equal(moved['output']['kernel'], initial_params['output']['kernel'])
  np.testing.assert_array_equal(moved['output']['bias'], checkpoint_params['output']['bias'])
  assert jax.tree.structure(moved) == jax.tree.structure(initial_params)


def test_dtypes_are_those_of_the_initial_parameters():
  checkpoint_params = jax.tree.map(lambda x: x.astype(np.float16), parameters(5))
  moved, _ = transfer(checkpoint_params, parameters(6), AXES, vocabulary('a'), vocabulary('a', 'b'))
  assert all(x.dtype == np.float32 for x in jax.tree.leaves(moved))


def test_nothing_fits():
  words = vocabulary('a')
  checkpoint_params = {'other': {'kernel': np.zeros((2, 3), np.float32)}}
  with pytest.raises(DataError, match='init_from'):
    transfer(checkpoint_params, parameters(5), AXES, words, words)


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
