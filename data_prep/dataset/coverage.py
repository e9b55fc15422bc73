"""How many videos of each split have features, for the manifest and the reports of scores."""

from collections.abc import Iterable, Mapping, Sequence

from data_prep.dataset.writer import ShardResult
from vidcap_jax.annotations.model import AnnotatedVideo
from vidcap_jax.data.metric_words import different_words
from vidcap_jax.data.schema import Dropped

MOST_WORDS = 20  # words that the metrics split otherwise, in the manifest


def coverage(
  videos: Mapping[str, Sequence[AnnotatedVideo]],
  results: Mapping[str, Sequence[ShardResult]],
  incomplete: Sequence[Dropped],
) -> dict[str, dict]:
  """Counts videos by split.

  Args:
    videos: all videos of the splits.
    results: of the shards, by split.
    incomplete: videos that were left out before features were read.

  Returns:
    split -> how many videos are ``listed``, in the data set (``videos``), ``missing`` (without
    features), ``bad`` (with unusable features) and ``uncaptioned`` (training videos without a
    caption), and ``streams``: stream -> how many videos in the data set have it. Where features
    were too small for the dtype of storage, also ``underflow``: stream -> [values that are not 0,
    those of them that are stored as 0].
  """
  counts = {}
  for split, part in videos.items():
    reasons = [d.reason for d in incomplete if d.split == split]
    missing = sum(reason.startswith('no features') for reason in reasons)
    streams: dict[str, int] = {}
    underflow: dict[str, list[int]] = {}
    for result in results[split]:
      for stream, (nonzero, lost) in result.underflow.items():
        total = underflow.setdefault(stream, [0, 0])
        total[0], total[1] = total[0] + nonzero, total[1] + lost
      for stream, count in result.present.items():
        streams[stream] = streams.get(stream, 0) + count
    counts[split] = {
      'listed': len(part),
      'videos': sum(result.shard.records for result in results[split]),
      'missing': missing,
      'bad': sum(len(result.dropped) for result in results[split]),
      'uncaptioned': len(reasons) - missing,
      'streams': streams,
    }
    if lost_values := {stream: total for stream, total in underflow.items() if total[1]}:
      counts[split]['underflow'] = lost_values
  return counts


def metric_words(captions: Iterable[str]) -> dict:
  """Counts captions whose words the metrics split otherwise; see ``data/metric_words.py``.

  Returns:
    ``{'metric_words': {'captions': count, 'words': {word: count}}}`` with the most frequent words,
    or {} if there are no such captions.
  """
  count, words = different_words(captions)
  if not count:
    return {}
  return {'metric_words': {'captions': count, 'words': dict(words.most_common(MOST_WORDS))}}
