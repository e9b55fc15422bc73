"""Starting from another run's parameters, its vocabulary mapped onto ours word by word."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.errors import DataError


def transfer(
  theirs: Mapping,
  ours: Mapping,
  axes: Any,
  their_words: Vocabulary,
  our_words: Vocabulary,
) -> tuple[dict, list[str]]:
  """Our parameters with all values taken from theirs that have a place in ours.

  Rows and columns of words that both vocabularies have are copied by word; new words keep their
  initial values. Other parameters are copied where the shapes agree.

  Returns:
    The parameters (numpy) and the list of differences, one line each, for the user to read.

  Raises:
    DataError: not one parameter fits.
  """
  flat = lambda tree: {  # noqa: E731
    '/'.join(str(k.key) for k in path): leaf for path, leaf in jax.tree.leaves_with_path(tree)
  }
  old, new, axis = flat(theirs), flat(ours), flat(axes)
  shared = [
    (our_words.index[w], i) for i, w in enumerate(their_words.words) if w in our_words.index
  ]
  to, source = np.array(shared, int).T
  differences = []
  if their_words.words != our_words.words:
    differences.append(
      f'vocabulary: {len(shared)} words taken over, {len(our_words) - len(shared)} new ones start '
      f'from scratch, {len(their_words) - len(shared)} old ones dropped'
    )
  out, copied = {}, 0
  for name, leaf in new.items():
    value = np.array(leaf)
    if name not in old:
      differences.append(f'{name} {value.shape}: not in the checkpoint, starts from scratch')
    else:
      taken, at = np.asarray(old[name]), axis[name]
      value, why = _copy(value, taken, at, to, source)
      copied += not why
      if why:
        differences.append(f'{name}: {why}, starts from scratch')
    out[name] = value
  differences += [
    f'{name} {old[name].shape}: only in the checkpoint, dropped'
    for name in sorted(old.keys() - new.keys())
  ]
  if not copied:
    raise DataError('init_from: no parameter of the checkpoint fits this model')
  leaves = [out['/'.join(str(k.key) for k in path)] for path, _ in jax.tree.leaves_with_path(ours)]
  return jax.tree.unflatten(jax.tree.structure(ours), leaves), differences


def _copy(value, taken, axis, to, source):
  """(value, '') with ``taken`` copied in, or (value, why it can't be)."""
  shapes = [list(x.shape) for x in (value, taken)]
  if axis >= 0 and value.ndim == taken.ndim:
    for shape in shapes:
      shape[axis] = 0
  if shapes[0] != shapes[1]:
    return value, f'{taken.shape} in the checkpoint, {value.shape} here'
  if axis < 0:
    return taken.astype(value.dtype), ''
  value = np.moveaxis(value.copy(), axis, 0)
  value[to] = np.moveaxis(taken, axis, 0)[source]
  return np.moveaxis(value, 0, axis), ''
