"""Hosts share the work: together they read what one would, each its own records."""

import numpy as np
import pytest

from tests.vidcap_jax.data.batches import (
  VIDEOS,
  assert_same,
  check_padding_row,
  check_row,
  evaluation,
  join_hosts,
  training,
)
from vidcap_jax.data.batch import default_sizes
from vidcap_jax.data.order import TrainOrder
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest


@pytest.mark.parametrize('hosts', [1, 2, 4])
def test_global_batches_do_not_depend_on_hosts(hosts):
  parts = [training(host=h, hosts=hosts) for h in range(hosts)]
  assert all(len(batch['video_index']) == 4 // hosts for _, batch in parts[0])
  assert_same(join_hosts(parts), training())


@pytest.mark.parametrize('per_host', [1, 2, 3, 5])
@pytest.mark.parametrize('hosts', [1, 2, 4])
@pytest.mark.parametrize('videos', [1, 3, 7])
def test_evaluation_visits_each_video_once(videos, hosts, per_host):
  size = per_host * hosts
  parts = [evaluation(size, source=VIDEOS[:videos], host=h, hosts=hosts) for h in range(hosts)]
  assert {len(part) for part in parts} == {-(-videos // size)}  # equal steps, or hosts would hang
  seen = []
  for _, batch in join_hosts(parts):
    assert len(batch['video_index']) == size
    for r, index in enumerate(batch['video_index']):
      if index < 0:
        check_padding_row(batch, r)
      else:
        check_row(batch, r, VIDEOS[index], range(min(1, len(VIDEOS[index].captions))))
        seen.append(int(index))
  assert seen == list(range(videos))


class Watched:
  """A source that knows which of its videos were read."""

  def __init__(self, source):
    self.source, self.read = source, []

  def __len__(self):
    return len(self.source)

  def __getitem__(self, index):
    self.read.append(int(index))
    return self.source[index]


@pytest.mark.parametrize(('split', 'hosts'), [('train', 2), ('train', 4), ('val', 4)])
def test_hosts_read_only_their_own_records(split, hosts, tiny_data):
  """7 videos on 2 and on 4 hosts, 3 on 4, all from one shard of a data set."""
  manifest = read_manifest(tiny_data)
  assert len(manifest.splits[split].shards) == 1
  options = {'streams': manifest.streams, 'sizes': default_sizes(manifest.streams), 'threads': 0}
  whole = open_split(tiny_data, split)
  sources = [Watched(open_split(tiny_data, split)) for _ in range(hosts)]
  parts = [
    evaluation(hosts, source=source, host=h, hosts=hosts, **options)
    for h, source in enumerate(sources)
  ]
  assert len({len(part) for part in parts}) == 1
  assert sorted(i for source in sources for i in source.read) == list(range(len(whole)))
  assert_same(join_hosts(parts), evaluation(hosts, source=whole, **options))

  order = TrainOrder(np.array([len(v.captions) for v in whole]), 4, 2, seed=1)
  for source in sources:
    source.read.clear()
  parts = [
    training(order, source, host=h, hosts=hosts, **options) for h, source in enumerate(sources)
  ]
  for part, source in zip(parts, sources):
    rows = [int(i) for _, batch in part for i in batch['video_index'] if i >= 0]
    assert source.read == rows
  assert_same(join_hosts(parts), training(order, whole, **options))
