"""Initialises parameters from another run's checkpoint, whose vocabulary may differ."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.errors import DataError


def transfer(
  checkpoint_params: Mapping,
  initial_params: Mapping,
  axes: Any,
  checkpoint_vocabulary: Vocabulary,
  vocabulary: Vocabulary,
) -> tuple[dict, list[str]]:
  """Copies a checkpoint's parameters into a model's initial ones, where they fit.

  Rows and columns of words that both vocabularies have are copied by word; new words keep their
  initial values. Other parameters are copied where the shapes agree.

  Args:
    checkpoint_params: as saved.
    initial_params: of the model that is to be trained.
    axes: for each of these the axis over the vocabulary, see ``sharding.vocabulary_axes``.
    checkpoint_vocabulary: of ``checkpoint_params``.
    vocabulary: of ``initial_params``.

  Returns:
    The parameters (numpy), and a line for the log for each difference.

  Raises:
    DataError: no parameter of the checkpoint fits.
  """
  saved, axis_of = _by_name(checkpoint_params), _by_name(axes)
  words = _SharedWords.of(checkpoint_vocabulary, vocabulary)
  differences = []
  if checkpoint_vocabulary.words != vocabulary.words:
    shared = len(words.target)
    differences.append(
      f'vocabulary: {shared} words taken over, {len(vocabulary) - shared} new ones start from '
      f'scratch, {len(checkpoint_vocabulary) - shared} old ones dropped'
    )
  params, copied = {}, 0
  for name, initial in _by_name(initial_params).items():
    value = np.array(initial)
    if name not in saved:
      differences.append(f'{name} {value.shape}: not in the checkpoint, starts from scratch')
    else:
      value, mismatch = _copy(value, np.asarray(saved[name]), axis_of[name], words)
      copied += not mismatch
      if mismatch:
        differences.append(f'{name}: {mismatch}, starts from scratch')
    params[name] = value
  differences += [
    f'{name} {saved[name].shape}: only in the checkpoint, dropped'
    for name in sorted(saved.keys() - params.keys())
  ]
  if not copied:
    raise DataError('init_from: no parameter of the checkpoint fits this model')
  return jax.tree.unflatten(jax.tree.structure(initial_params), params.values()), differences


def _by_name(tree: Any) -> dict[str, Any]:
  """The leaves of a tree of dicts by their path, 'words/embedding', in the tree's order."""
  return {
    '/'.join(str(key.key) for key in path): leaf for path, leaf in jax.tree.leaves_with_path(tree)
  }


@dataclasses.dataclass(frozen=True)
class _SharedWords:
  """The indices of words that two vocabularies share: each word at source[i] and target[i]."""

  source: np.ndarray
  target: np.ndarray

  @classmethod
  def of(cls, source: Vocabulary, target: Vocabulary) -> '_SharedWords':
    pairs = [(i, target.index[word]) for i, word in enumerate(source.words) if word in target.index]
    return cls(*np.array(pairs, int).T)


def _copy(
  value: np.ndarray, saved: np.ndarray, axis: int, words: _SharedWords
) -> tuple[np.ndarray, str]:
  """(value with ``saved`` copied in, '') or, if the shapes differ, (value, how they differ).

  Args:
    axis: the axis over the vocabulary, whose sizes may differ; -1 for none.
  """
  shapes = [list(x.shape) for x in (value, saved)]
  if axis >= 0 and value.ndim == saved.ndim:
    for shape in shapes:
      shape[axis] = 0
  if shapes[0] != shapes[1]:
    return value, f'{saved.shape} in the checkpoint, {value.shape} here'
  if axis < 0:
    return saved.astype(value.dtype), ''
  value = np.moveaxis(value.copy(), axis, 0)
  value[words.target] = np.moveaxis(saved, axis, 0)[words.source]
  return np.moveaxis(value, 0, axis), ''
