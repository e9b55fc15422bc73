"""What stands out in the captions of a split: repeated captions, and words that no caption has."""

import collections
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from vidcap_jax.evaluation import metrics

_MOST_CAPTIONS, _MOST_WORDS = 100, 200  # listed


def repeated(captions: Sequence[str]) -> list[dict[str, Any]]:
  """Captions of several videos, the most frequent first, with the numbers of their videos."""
  places: dict[str, list[int]] = collections.defaultdict(list)
  for number, caption in enumerate(captions):
    places[caption].append(number)
  several = [(text, videos) for text, videos in places.items() if len(videos) > 1]
  several.sort(key=lambda entry: -len(entry[1]))
  return [{'caption': text, 'videos': videos} for text, videos in several[:_MOST_CAPTIONS]]


def unsaid_words(
  captions: Sequence[str], references: metrics.References, vocabulary: Collection[str] | None
) -> dict[str, list[tuple[str, int]]]:
  """Words of references that no caption has, and in how many videos' references they are.

  Args:
    captions: of all videos.
    references: of the same videos.
    vocabulary: the words that the model knows; None if that is not known.

  Returns:
    unsaid: the words that the model knows; unknown: those that it does not.
  """
  tokens = metrics.tokenize(list(captions), references.by_character, references.programs.tokenizer)
  said = {word for caption in tokens for word in caption.split()}
  counts = collections.Counter(
    word
    for own in references.captions.values()
    for word in {word for caption in own for word in caption.split()}
  )
  missing = [(word, count) for word, count in counts.most_common() if word not in said]
  known = [entry for entry in missing if vocabulary is None or entry[0] in vocabulary]
  unknown = [entry for entry in missing if vocabulary is not None and entry[0] not in vocabulary]
  return {'unsaid': known[:_MOST_WORDS], 'unknown': unknown[:_MOST_WORDS]}


def ordered(values: Sequence[float | None], *, highest: bool = False) -> list[int]:
  """The numbers of the videos by a value, the lowest or the highest first; None is left out."""
  known = [(value, number) for number, value in enumerate(values) if value is not None]
  return [number for _, number in sorted(known, key=lambda e: -e[0] if highest else e[0])]


def chosen_for_attention(orders: Sequence[Sequence[int]], most: int) -> list[int]:
  """At most so many videos, from the heads of several orders in turn."""
  chosen: dict[int, None] = {}
  for place in range(max(map(len, orders), default=0)):
    for order in orders:
      if len(chosen) == most:
        return list(chosen)
      if place < len(order):
        chosen.setdefault(order[place])
  return list(chosen)


def differences(
  own: Mapping[str, Mapping[str, float]], other: Mapping[str, Mapping[str, float]], name: str
) -> dict[str, float]:
  """Video id -> score of ``own`` minus that of ``other``.

  To four digits, as pages show it: what rounding adds to a score is no gain and no loss.
  """
  both = (id_ for id_ in own if id_ in other)
  return {id_: round(own[id_][name] - other[id_][name], 4) + 0.0 for id_ in both}  # no -0.0
