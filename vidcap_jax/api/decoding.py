"""The decoding settings of one call, from those of the checkpoint and the keywords given."""

from collections.abc import Callable, Mapping
from typing import Any

from vidcap_jax.api.keywords import keywords_of, unexpected
from vidcap_jax.decoding.decode import CHECKPOINT_SETTINGS
from vidcap_jax.errors import ConfigError

# The method that reads a setting; the others are for all methods.
METHOD_OF = {
  **dict.fromkeys(('beam', 'groups', 'diversity', 'force', 'length_penalty'), 'beam'),
  **dict.fromkeys(('temperature', 'top_k', 'top_p'), 'sample'),
}
# The keywords of ``Captioner.caption`` that are decoding settings.
SETTINGS = (*METHOD_OF, 'captions', 'method', 'min_length', 'no_repeat_ngram', *CHECKPOINT_SETTINGS)
# Settings of a checkpoint that another method can't have.
_ONLY_BEAM = {'groups': 1, 'force': ()}
_ONLY_SEVERAL = {'n_best': 1}


def changes(
  saved: Mapping[str, Any], given: Mapping[str, Any], function: Callable | None = None
) -> dict[str, Any]:
  """Which of a checkpoint's decoding settings a call changes, and to what.

  A setting that only one method reads chooses this method, unless ``method`` is given. Asking for
  several captions of a video makes greedy decoding a beam search, and a beam as wide as that.

  Args:
    saved: the checkpoint's ``config.decode``.
    given: keyword arguments by setting, of which ``captions`` is another name for ``n_best``; those
      that are None are left out.
    function: that was called with them; an unknown setting may be one of its other keywords.

  Raises:
    TypeError: an unknown setting, or both names.
    ConfigError: a setting that the method does not read.
  """
  given = {key: value for key, value in given.items() if value is not None}
  if 'captions' in given:
    if 'n_best' in given:
      raise TypeError('captions and n_best are the same setting: give one of them')
    given['n_best'] = given.pop('captions')
  known = [*CHECKPOINT_SETTINGS, *saved]
  for key in given:
    if key not in known:
      others = keywords_of(function) if function else []
      raise TypeError(unexpected(key, [*known, 'captions', *others]))
  methods = {key: METHOD_OF[key] for key in given if key in METHOD_OF}
  method = given.get('method') or next(iter(methods.values()), saved['method'])
  if 'method' not in given and not methods and method == 'greedy' and given.get('n_best', 1) != 1:
    method = 'beam'
  for key, reads in methods.items():
    if reads != method:
      raise ConfigError(f'{key}={given[key]!r} is for method={reads!r}, not for {method!r}')
  merged = {**given, 'method': method}
  if method != 'beam':
    merged = {**_ONLY_BEAM, **merged}
  if method == 'greedy':
    merged = {**_ONLY_SEVERAL, **merged}
  if method == 'beam' and 'beam' not in given and given.get('n_best', 1) > saved['beam']:
    merged['beam'] = given['n_best']
  return merged
