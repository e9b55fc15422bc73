"""Every process reads its share of a split's captions, and gets all of them in order."""

import jax
import pytest

from vidcap_jax.data import texts
from vidcap_jax.data.records import Video

VIDEOS = [
  Video('a', ('a cat', '一只猫'), {'image': None}, 2),
  Video('b', (), {'image': None}),
  Video('c', ('a "dog"',), {'image': None}, 0, 4),
  Video('d', ('birds',), {'image': None}),
  Video('e', ('a', 'b', 'c'), {'image': None}),
]


class Processes:
  """Runs ``read_texts`` as each of several processes, one after another."""

  def __init__(self, monkeypatch, count):
    self.monkeypatch, self.count = monkeypatch, count
    monkeypatch.setattr(jax, 'process_count', lambda: count)

  def read(self, source):
    """What each process gets."""
    sent = []

    def send(data):
      sent.append(data)
      return [b'[]'] * self.count

    self._run(source, send)  # first each process's own part, then all parts gathered
    return self._run(source, lambda data: list(sent))

  def _run(self, source, gather):
    self.monkeypatch.setattr(texts.mesh, 'gather', gather)
    results = []
    for process in range(self.count):
      self.monkeypatch.setattr(jax, 'process_index', lambda process=process: process)
      results.append(texts.read_texts(source, threads=0))
    return results


@pytest.mark.parametrize('count', [1, 2, 3, 8])
@pytest.mark.parametrize('videos', [0, 1, 5])
def test_all_processes_get_all_captions_in_order(count, videos, monkeypatch):
  expected = [Video(v.video_id, v.captions, {}, v.category, v.key_frame) for v in VIDEOS[:videos]]
  assert Processes(monkeypatch, count).read(VIDEOS[:videos]) == [expected] * count


class Recording:
  """A source that records which videos are read."""

  def __init__(self, videos):
    self.videos, self.read = videos, []

  def __len__(self):
    return len(self.videos)

  def __getitem__(self, index):
    self.read.append(int(index))
    return self.videos[index]


def test_a_process_reads_only_its_share(monkeypatch):
  monkeypatch.setattr(jax, 'process_count', lambda: 2)
  monkeypatch.setattr(jax, 'process_index', lambda: 1)
  monkeypatch.setattr(texts.mesh, 'gather', lambda data: [b'[]', data])
  source = Recording(VIDEOS)
  texts.read_texts(source, threads=0)
  assert source.read == [1, 3]
