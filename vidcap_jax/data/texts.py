"""Reads the captions of a split on all processes together, each a share of the records."""

import dataclasses
import itertools
import json

import jax

from vidcap_jax.data import pipeline
from vidcap_jax.data.records import Video, VideoSource
from vidcap_jax.distributed import mesh


@dataclasses.dataclass(frozen=True)
class _Share:
  """Every ``hosts``-th video of a source."""

  source: VideoSource
  host: int
  hosts: int

  def __len__(self) -> int:
    return len(range(self.host, len(self.source), self.hosts))

  def __getitem__(self, index: int) -> Video:
    return self.source[self.host + index * self.hosts]


def read_texts(source: VideoSource, threads: int = 2) -> list[Video]:
  """``pipeline.read_texts`` of the whole split, on every process; all have to call it."""
  hosts = jax.process_count()
  share = _Share(source, jax.process_index(), hosts) if hosts > 1 else source
  videos = list(pipeline.read_texts(share, threads))
  if hosts == 1:
    return videos
  texts = [(v.video_id, v.captions, v.category, v.key_frame) for v in videos]
  parts = [json.loads(part) for part in mesh.gather(json.dumps(texts).encode())]
  rows = itertools.chain.from_iterable(itertools.zip_longest(*parts))
  return [Video(i, tuple(captions), {}, *rest) for i, captions, *rest in filter(None, rows)]
