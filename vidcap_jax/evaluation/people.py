"""The captions of people, scored as a model's are: what a very good model could reach."""

from collections.abc import Iterator, Mapping, Sequence

MOST_ROUNDS = 5

Captions = Mapping[str, Sequence[str]]


def count_rounds(captions: Captions) -> int:
  """How many captions every video with two or more has, at most ``MOST_ROUNDS``; 0 without any."""
  counts = [len(own) for own in captions.values() if len(own) > 1]
  return min([MOST_ROUNDS, *counts]) if counts else 0


def rounds(captions: Captions) -> Iterator[tuple[dict[str, str], dict[str, list[str]]]]:
  """One caption of each video as the one to score, and the video's others as its references.

  Args:
    captions: of each video; videos with one caption are left out.

  Yields:
    ``count_rounds`` times (captions to score, references), each with another caption of a video.
  """
  several = {video_id: list(own) for video_id, own in captions.items() if len(own) > 1}
  for i in range(count_rounds(captions)):
    chosen = {video_id: own[i] for video_id, own in several.items()}
    yield chosen, {video_id: own[:i] + own[i + 1 :] for video_id, own in several.items()}
