"""How much of each split has features: counted for the manifest, and from there for every score."""

from collections.abc import Mapping, Sequence

from data_prep.dataset.writer import ShardResult
from vidcap_jax.annotations.model import AnnotatedVideo
from vidcap_jax.data.schema import Dropped


def coverage(
  videos: Mapping[str, Sequence[AnnotatedVideo]],
  results: Mapping[str, Sequence[ShardResult]],
  lacking: Sequence[Dropped],
) -> dict[str, dict]:
  """Counts by split.

  Args:
    videos: all that the splits list.
    results: of the shards, by split.
    lacking: videos that were left out before features were read.

  Returns:
    split -> ``listed`` videos, ``videos`` kept, ``missing`` (without features), ``bad`` (with
    unusable ones), ``uncaptioned`` (training videos without a caption), and ``streams``: how many
    of the videos kept have each.
  """
  found = {}
  for split, part in videos.items():
    reasons = [d.reason for d in lacking if d.split == split]
    missing = sum(reason.startswith('no features') for reason in reasons)
    streams: dict[str, int] = {}
    for result in results[split]:
      for stream, count in result.present.items():
        streams[stream] = streams.get(stream, 0) + count
    found[split] = {
      'listed': len(part),
      'videos': sum(result.shard.records for result in results[split]),
      'missing': missing,
      'bad': sum(len(result.dropped) for result in results[split]),
      'uncaptioned': len(reasons) - missing,
      'streams': streams,
    }
  return found
