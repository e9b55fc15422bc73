"""The queue of videos: batches of equal settings, cancelled videos, failures."""

import dataclasses
import threading

import pytest

from vidcap_jax.data.records import Video
from vidcap_jax.inference.result import Candidate
from vidcap_jax.serving.batching import Batcher, Waiting
from vidcap_jax.serving.programs import Decoding, Program

GREEDY, BEAM = Decoding(Program('greedy')), Decoding(Program('beam', 3, 3), (0.5,), 2)


class RecordedPrograms:
  """Captions a video by its id once ``gate`` is open, and keeps the batches."""

  batch_sizes = (1, 4)

  def __init__(self):
    self.batches = []
    self.gate = threading.Event()

  def run(self, videos, rows, how):
    self.gate.wait(10)
    self.batches.append(([video.video_id for video in videos], list(rows), how))
    if any(video.video_id == 'bad' for video in videos):
      raise ValueError('a fault')
    most = how.program.captions
    return [tuple(Candidate(v.video_id, -i) for i in range(most))[: how.captions] for v in videos]

  def explain(self, videos, captions):
    return [{'of': caption} for caption in captions]


@pytest.fixture
def programs():
  return RecordedPrograms()


@pytest.fixture
def batcher(programs):
  made = Batcher(programs, lambda videos: None)
  made.start()
  yield made
  programs.gate.set()
  made.close()


def waiting(name, how=GREEDY, row=0, attention=False):
  return Waiting(Video(name, (), {}), how, row, attention)


def captions_of(programs, batcher, videos):
  """Submits a video that keeps the thread busy, then the others."""
  first = waiting('first')
  batcher.submit([first])
  while len(batcher):
    pass
  batcher.submit(videos)
  programs.gate.set()
  return [each.future.result(10) for each in videos]


def test_videos_with_equal_settings_share_a_batch_and_the_oldest_comes_first(programs, batcher):
  other_value = dataclasses.replace(BEAM, values=(0.7,))
  one_caption = dataclasses.replace(BEAM, captions=1)
  videos = [waiting('a', BEAM, 3), waiting('b'), waiting('c', other_value), waiting('d', BEAM, 4)]
  videos += [waiting('e', one_caption, 5), waiting('f')]
  results = captions_of(programs, batcher, videos)
  ids = [batch[0] for batch in programs.batches]
  assert ids == [['first'], ['a', 'd', 'e'], ['b', 'f'], ['c']]
  assert programs.batches[1][1] == [3, 4, 5]
  assert [len(result.candidates) for result in results] == [2, 1, 2, 2, 1, 1]
  assert [result.candidates[0].caption for result in results] == list('abcdef')


def test_a_batch_has_at_most_the_largest_size(programs, batcher):
  captions_of(programs, batcher, [waiting(str(i)) for i in range(6)])
  assert [len(batch[0]) for batch in programs.batches] == [1, 4, 2]


def test_cancelled_videos_are_left_out(programs, batcher):
  videos = [waiting('a'), waiting('b')]
  videos[0].future.cancel()
  captions_of(programs, batcher, [videos[1]])
  assert [batch[0] for batch in programs.batches] == [['first'], ['b']]


def test_a_fault_costs_only_its_video(programs, batcher):
  videos = [waiting('a'), waiting('bad'), waiting('c')]
  first = waiting('first')
  batcher.submit([first])
  batcher.submit(videos)
  programs.gate.set()
  with pytest.raises(ValueError, match='a fault'):
    videos[1].future.result(10)
  assert [videos[i].future.result(10).candidates[0].caption for i in (0, 2)] == ['a', 'c']


def test_attention_is_computed_of_those_who_ask(programs, batcher):
  videos = [waiting('a'), waiting('b', attention=True)]
  results = captions_of(programs, batcher, videos)
  assert [result.attention for result in results] == [{}, {'of': 'b'}]


def test_closing_captions_what_waits(programs):
  batcher = Batcher(programs, lambda videos: None)
  batcher.start()
  videos = [waiting(str(i)) for i in range(9)]
  batcher.submit(videos)
  programs.gate.set()
  batcher.close()
  assert all(each.future.done() for each in videos)
