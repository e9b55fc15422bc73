"""Matches features to videos whose ids differ from the features' names.

An exact match always wins. Otherwise names are compared after rules are applied to both: ``path``
keeps the last part of a path, ``extension`` removes ``.mp4``, ``.npy`` and similar, ``case``
converts to lower case, ``prefix:clip_`` removes ``clip_``. Ambiguous matches are an error.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from vidcap_jax.errors import DataError

DEFAULT = ('path', 'extension')

_EXTENSION = re.compile(
  r'(\.(mp4|avi|mkv|webm|mov|flv|m4v|jpe?g|png|webp|mpe?g|wmv|3gp|npy|npz|pkl|pickle|pth|pt|h5|hdf5))+$',
  re.I,
)
_RULES: Mapping[str, Callable[[str], str]] = {
  'path': lambda name: re.split(r'[/\\]', name)[-1],
  'extension': lambda name: _EXTENSION.sub('', name) or name,
  'case': str.lower,
}

Normalize = Callable[[str], str]


def normal_form(rules: Sequence[str]) -> Normalize:
  """Returns a function that applies rules to a name: path, extension, prefix, case, in this order.

  Raises:
    DataError: an unknown rule.
  """
  prefixes = [rule.partition(':')[2] for rule in rules if rule.startswith('prefix:')]
  for rule in rules:
    if rule not in _RULES and not (rule.startswith('prefix:') and all(prefixes)):
      raise DataError(f'--match: unknown rule {rule!r}; known: {", ".join(_RULES)}, prefix:TEXT')

  def apply(name: str) -> str:
    for rule in ('path', 'extension'):
      if rule in rules:
        name = _RULES[rule](name)
    for prefix in prefixes:
      name = name.removeprefix(prefix)
    return _RULES['case'](name) if 'case' in rules else name

  return apply


def match(
  ids: Iterable[str],
  features: Collection[str],
  aliases: Mapping[str, str],
  normalize: Normalize,
  stream: str,
) -> dict[str, str]:
  """Finds each video's features.

  Args:
    ids: of the videos.
    features: names of features.
    aliases: video id -> other name that its features may have.
    normalize: from ``normal_form``.
    stream: name of the stream, for messages.

  Returns:
    Video id -> name of its features, for the videos that have features.

  Raises:
    DataError: by the rules, several features match one video, or one matches several videos.
  """
  by_form: dict[str, list[str]] = {}
  for name in features:
    by_form.setdefault(normalize(name), []).append(name)
  matched: dict[str, str] = {}
  taken: dict[str, str] = {}  # features matched by a rule -> video
  for video in ids:
    wanted = [name for name in (video, aliases.get(video)) if name is not None]
    exact = next((name for name in wanted if name in features), None)
    if exact is not None:
      matched[video] = exact
      continue
    near = next((by_form[f] for f in map(normalize, wanted) if f in by_form), None)
    if near is None:
      continue
    if len(near) > 1:
      raise DataError(
        f'stream {stream!r}: video {video!r} may have the features {", ".join(near[:3])}; '
        'rename them, or leave the rule that makes them equal out of --match'
      )
    (matched[video],) = near
    if (other := taken.setdefault(near[0], video)) != video:
      raise DataError(
        f'stream {stream!r}: the features {near[0]!r} fit the videos {other!r} and {video!r}; '
        'rename them, or leave the rule that makes them equal out of --match'
      )
  for video, name in matched.items():
    if taken.get(name, video) != video:
      raise DataError(
        f'stream {stream!r}: the features {name!r} are those of {video!r} by name, and fit '
        f'{taken[name]!r} by --match; rename them'
      )
  return matched
