import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vidcap_jax.data.order import EvalOrder, TrainOrder
from vidcap_jax.errors import DataError

COUNTS = st.lists(st.integers(0, 7), min_size=1, max_size=12).filter(any)
SIZES = st.integers(1, 6)
SEEDS = st.integers(0, 2**40)


def epoch_rows(order, epoch=0):
  """(step of the epoch, video, captions) of every row of an epoch."""
  first = epoch * order.steps_per_epoch
  return [
    (step, *order.row(first + step, r))
    for step in range(order.steps_per_epoch)
    for r in range(order.batch_size)
  ]


@settings(max_examples=60, deadline=None)
@given(COUNTS, SIZES, SIZES, SEEDS, st.integers(0, 3))
def test_an_epoch_uses_every_caption_once(counts, batch, per_video, seed, epoch):
  order = TrainOrder(np.array(counts), batch, per_video, seed)
  used = []
  for _, video, captions in epoch_rows(order, epoch):
    assert captions.shape == (per_video,)
    assert captions.dtype == np.int32
    assert (video >= 0) == (captions[0] >= 0)
    used += [(video, c) for c in captions if c >= 0]
  assert sorted(used) == [(v, c) for v, count in enumerate(counts) for c in range(count)]
  assert order.without_captions == counts.count(0)


@settings(max_examples=60, deadline=None)
@given(COUNTS, SIZES, SIZES, SEEDS)
def test_no_batch_holds_a_video_twice_and_none_is_empty(counts, batch, per_video, seed):
  order = TrainOrder(np.array(counts), batch, per_video, seed)
  rows = epoch_rows(order)
  for step in range(order.steps_per_epoch):
    videos = [video for s, video, _ in rows if s == step and video >= 0]
    assert videos
    assert len(videos) == len(set(videos))


@settings(max_examples=60, deadline=None)
@given(COUNTS, SIZES, SIZES, SEEDS)
def test_rounds_visit_each_video_with_unused_captions_once(counts, batch, per_video, seed):
  order = TrainOrder(np.array(counts), batch, per_video, seed)
  assert order.rounds == -(-max(counts) // per_video)
  visits = [[] for _ in range(order.rounds)]
  for step, video, captions in epoch_rows(order):
    epoch, number, _ = order.locate(step)
    assert epoch == 0
    if video >= 0:
      visits[number].append(video)
      # Only the last visit of a video may leave slots unused, and those come last.
      left = counts[video] - number * per_video
      assert (captions >= 0).tolist() == [slot < left for slot in range(per_video)]
  for number, videos in enumerate(visits):
    assert sorted(videos) == [v for v, count in enumerate(counts) if count > number * per_video]


def test_padding_comes_only_at_the_end_of_a_round():
  order = TrainOrder(np.array([5, 4, 1, 1, 1]), 2, 2, seed=3)
  # Rounds of 5, 2 and 1 videos: 3 + 1 + 1 batches.
  assert (order.rounds, order.steps_per_epoch) == (3, 5)
  empty = [(step, i % 2) for i, (step, video, _) in enumerate(epoch_rows(order)) if video < 0]
  assert empty == [(2, 1), (4, 1)]
  assert [order.locate(step) for step in range(6)] == [
    (0, 0, 0),
    (0, 0, 1),
    (0, 0, 2),
    (0, 1, 0),
    (0, 2, 0),
    (1, 0, 0),
  ]


def test_rows_depend_on_nothing_but_seed_and_step():
  counts = np.array([3, 0, 7, 2, 5, 1])

  def make(seed=9):
    return TrainOrder(counts, 4, 2, seed)

  steps = 3 * make().steps_per_epoch
  calls = [(step, r) for step in range(steps) for r in range(4)]
  straight = {call: as_list(make().row(*call)) for call in calls}

  shuffled = pickle.loads(pickle.dumps(make()))
  for i in np.random.default_rng(0).permutation(len(calls)):
    assert as_list(shuffled.row(*calls[i])) == straight[calls[i]]

  other = make(10)
  assert any(as_list(other.row(*call)) != straight[call] for call in calls)


def test_videos_and_captions_are_permuted_anew():
  order = TrainOrder(np.full(50, 6), 50, 3, seed=1)
  videos = [[order.row(step, r)[0] for r in range(50)] for step in range(4)]
  assert len({tuple(v) for v in videos}) == 4  # each round of each epoch
  assert list(range(50)) not in videos

  def captions_of(video, epoch):
    found = [c for _, v, captions in epoch_rows(order, epoch) if v == video for c in captions]
    return tuple(int(c) for c in found)

  assert len({captions_of(v, e) for v in range(10) for e in range(2)}) > 10


def test_every_place_is_equally_likely():
  # 4 videos, 2,000 epochs: each stands in row 0 about 500 times, 6 standard deviations = 116.
  order = TrainOrder(np.full(4, 2), 4, 1, seed=0)
  rows = [order.row(step, 0) for step in range(0, 4000, 2)]
  assert np.abs(np.bincount([v for v, _ in rows]) - 500).max() < 116
  assert abs(np.mean([c[0] for _, c in rows]) - 0.5) < 0.07


def test_order_is_fixed_for_ever():
  # Runs are resumed with newer versions of numpy and of this program: these must not change.
  order = TrainOrder(np.array([2, 3, 1, 4]), 2, 2, seed=7)
  rows = [as_list(order.row(step, r)) for step in range(3) for r in range(2)]
  assert rows == [
    (3, [0, 2]),
    (2, [0, -1]),
    (1, [2, 1]),
    (0, [1, 0]),
    (3, [1, 3]),
    (1, [0, -1]),
  ]


def as_list(row):
  video, captions = row
  return video, None if captions is None else captions.tolist()


@pytest.mark.parametrize(
  ('arguments', 'message'),
  [
    (([0, 0], 2, 1, 0), 'none of the 2 videos of this split has a caption'),
    (([], 2, 1, 0), 'none of the 0 videos'),
    (([1], 0, 1, 0), 'batch size must be at least 1, got 0'),
    (([1], 1, 0, 0), 'captions per video must be at least 1, got 0'),
    (([1], 1, 1, -1), 'seed must not be negative, got -1'),
  ],
)
def test_bad_arguments(arguments, message):
  with pytest.raises(DataError, match=message):
    TrainOrder(*arguments)


@given(st.integers(0, 40), st.integers(1, 9))
def test_evaluation_visits_each_video_once_in_order(videos, batch):
  order = EvalOrder(videos, batch, 1)
  rows = [order.row(step, r) for step in range(order.steps) for r in range(batch)]
  assert [v for v, _ in rows if v >= 0] == list(range(videos))
  assert all(captions is None for _, captions in rows)
  assert len(rows) - videos < batch


# ---------------------------------------------------------------- rounds by caption length


@st.composite
def grouped(draw):
  """(counts, lengths, batch, captions per video, seed)."""
  counts = np.array(draw(COUNTS))
  total = int(counts.sum())
  lengths = draw(st.lists(st.integers(1, 9), min_size=total, max_size=total))
  return counts, np.array(lengths), draw(SIZES), draw(SIZES), draw(SEEDS)


def make_grouped(case):
  counts, lengths, batch, per_video, seed = case
  return TrainOrder(counts, batch, per_video, seed, lengths)


def lengths_of(case, video, captions):
  counts, lengths, *_ = case
  start = int(counts[:video].sum())
  return [int(lengths[start + c]) for c in captions if c >= 0]


@settings(max_examples=60, deadline=None)
@given(grouped(), st.integers(0, 2))
def test_grouped_an_epoch_uses_every_caption_once(case, epoch):
  counts, _, batch, per_video, seed = case
  order = make_grouped(case)
  rows = epoch_rows(order, epoch)
  used = [(video, c) for _, video, captions in rows for c in captions if c >= 0]
  assert sorted(used) == [(v, c) for v, count in enumerate(counts) for c in range(count)]
  assert order.steps_per_epoch == TrainOrder(counts, batch, per_video, seed).steps_per_epoch
  for step in range(order.steps_per_epoch):
    videos = [video for s, video, _ in rows if s == step and video >= 0]
    assert videos
    assert len(videos) == len(set(videos))


@settings(max_examples=60, deadline=None)
@given(grouped(), st.integers(0, 2))
def test_longest_is_that_of_the_batch(case, epoch):
  order = make_grouped(case)
  first = epoch * order.steps_per_epoch
  for step in range(first, first + order.steps_per_epoch):
    rows = [order.row(step, r) for r in range(order.batch_size)]
    longest = max(n for video, captions in rows for n in lengths_of(case, video, captions))
    assert order.longest(step) == longest


@settings(max_examples=60, deadline=None)
@given(grouped(), st.integers(0, 20), st.integers(0, 20))
def test_longest_of_many_steps(case, start, count):
  order, steps = make_grouped(case), range(start, start + count)
  assert order.longest_of_steps(steps).tolist() == [order.longest(step) for step in steps]


@settings(max_examples=60, deadline=None)
@given(grouped(), st.integers(0, 2))
def test_a_videos_captions_come_shortest_first_from_some_turn_on(case, epoch):
  counts, _, _, per_video, _ = case
  order = make_grouped(case)
  rounds = {}
  for step, video, captions in epoch_rows(order, epoch):
    at_epoch, number, _ = order.locate(epoch * order.steps_per_epoch + step)
    assert at_epoch == epoch
    if video >= 0:
      rounds[video, number] = lengths_of(case, video, captions)
  assert set(rounds) == {
    (v, n) for v, count in enumerate(counts) for n in range(-(-count // per_video))
  }
  for video in np.flatnonzero(counts):
    turns = [rounds[video, n] for n in range(order.rounds) if (video, n) in rounds]
    begins = [sum(turns[n:] + turns[:n], []) for n in range(len(turns))]
    assert any(tokens == sorted(tokens) for tokens in begins)


def test_batches_are_of_one_length_and_long_and_short_ones_alternate():
  counts = np.full(60, 8)
  lengths = np.random.default_rng(0).integers(4, 22, counts.sum())
  order = TrainOrder(counts, 6, 2, 0, lengths)
  longest = np.array([order.longest(step) for step in range(order.steps_per_epoch)])
  # In any order nearly all batches of 12 captions are 20 tokens long.
  assert longest.mean() < 16
  for step in range(order.steps_per_epoch):
    rows = [order.row(step, r) for r in range(order.batch_size)]
    turns = [lengths.reshape(60, 8)[video, captions].max() for video, captions in rows]
    assert max(turns) - min(turns) <= 9
  for part in np.array_split(longest, 4):  # a stretch of training sees all lengths
    assert part.min() <= 9
    assert part.max() >= 19


@settings(max_examples=30, deadline=None)
@given(grouped(), st.integers(0, 50))
def test_grouped_rows_depend_on_nothing_but_seed_and_step(case, seed):
  """So a run that was resumed, or has other hosts or threads, reads the same."""
  order, copy = make_grouped(case), pickle.loads(pickle.dumps(make_grouped(case)))
  calls = [(s, r) for s in range(2 * order.steps_per_epoch) for r in range(order.batch_size)]
  straight = {call: as_list(order.row(*call)) for call in calls}
  for i in np.random.default_rng(seed).permutation(len(calls)):
    assert as_list(copy.row(*calls[i])) == straight[calls[i]]
  for step in range(2 * order.steps_per_epoch):
    assert copy.longest(step) == order.longest(step)


def test_batches_come_in_another_order_each_epoch():
  lengths = np.tile([3, 4, 5, 6, 7, 8], 4)
  order = TrainOrder(np.full(4, 6), 2, 1, seed=0, lengths=lengths)
  epochs = [
    tuple(order.longest(step) for step in range(first, first + order.steps_per_epoch))
    for first in range(0, 12 * order.steps_per_epoch, order.steps_per_epoch)
  ]
  assert len(set(epochs)) > 6


def test_captions_of_one_length_are_drawn_anew():
  order = TrainOrder(np.full(20, 4), 20, 2, seed=0, lengths=np.full(80, 5))
  pairs = {tuple(captions.tolist()) for _, _, captions in epoch_rows(order)}
  assert len(pairs) > 6


def test_most_steps_are_short():
  """64 captions of 5 to 20 words: at random nearly every batch holds a long one."""
  rng = np.random.default_rng(0)
  lengths = rng.choice(np.arange(5, 21), 200 * 20, p=np.arange(16, 0, -1) / 136)
  order = TrainOrder(np.full(200, 20), 64, 5, seed=0, lengths=lengths)
  longest = [order.longest(step) for step in range(order.steps_per_epoch)]
  assert sum(n <= 13 for n in longest) >= len(longest) / 2
  assert max(longest) == lengths.max()


def test_grouped_order_is_fixed_for_ever():
  # As above: runs are resumed with newer versions.
  lengths = np.array([5, 3, 4, 4, 4, 9, 2, 8, 2, 8])
  order = TrainOrder(np.array([2, 3, 1, 4]), 2, 2, seed=7, lengths=lengths)
  rows = [as_list(order.row(step, r)) for step in range(4) for r in range(2)]
  assert rows == [
    (3, [0, 2]),
    (1, [2, 1]),
    (0, [1, 0]),
    (2, [0, -1]),
    (1, [0, -1]),
    (3, [1, 3]),
    (0, [1, 0]),
    (2, [0, -1]),
  ]
