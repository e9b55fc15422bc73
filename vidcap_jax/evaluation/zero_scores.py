"""Scores that are the same whatever a model says, such as CIDEr over a single video."""

from collections.abc import Callable, Iterable, Sequence

ORDERS = 4  # n-grams of 1 to 4 words, as in BLEU and CIDEr

Videos = Sequence[Sequence[str]]  # the captions of each video


def zero_scores(videos: Videos, split: Callable[[str], list[str]] = str.split) -> dict[str, str]:
  """The scores that are 0 for any captions, each with the reason.

  BLEU's smoothing makes its 0 a small number that depends on the number of n-grams alone.

  Args:
    videos: the references of each video.
    split: a caption's words.

  Returns:
    A subset of CIDEr and BLEU_1 to BLEU_4 -> the reason.
  """
  zero = {}
  if _same_ngrams(videos, split):
    which = 'there is one video' if len(videos) == 1 else 'all videos have the same n-grams'
    zero['CIDEr'] = f'it weighs n-grams by how few videos have them, and {which}'
  longest = 0
  for caption in (caption for captions in videos for caption in captions):
    longest = max(longest, len(split(caption)))
    if longest >= ORDERS:
      break
  for n in range(longest + 1, ORDERS + 1):
    zero[f'BLEU_{n}'] = f'no reference has {n} words'
  return zero


def zero_notes(
  videos: Videos, metrics: Sequence[str], split: Callable[[str], list[str]]
) -> list[str]:
  """A line for each score of the metrics (CIDEr, BLEU …) that is 0 for any captions."""
  return [
    f'note: {name} does not tell good captions from bad ones: {reason}'
    for name, reason in zero_scores(videos, split).items()
    if name.partition('_')[0] in metrics
  ]


def _same_ngrams(videos: Videos, split: Callable[[str], list[str]]) -> bool:
  """Whether each n-gram of the captions is in the captions of every video."""
  ngrams = (_ngrams(map(split, captions)) for captions in videos)
  first = next(ngrams, set())
  return all(others == first for others in ngrams)


def _ngrams(sentences: Iterable[list[str]]) -> set[tuple[str, ...]]:
  return {
    tuple(words[i : i + n])
    for words in sentences
    for n in range(1, ORDERS + 1)
    for i in range(len(words) - n + 1)
  }
