"""Only the planted features determine the answers."""

import collections

import numpy as np
import pytest

from data_prep.synthetic.probe_clips import HELD, LAYERS, PROBES, SIZES, THINGS, clips


@pytest.fixture(scope='module')
def made():
  return {name: clips(name, seed=3) for name in PROBES}


def share_told(splits, see) -> float:
  """Of the test answers, those that the nearest class mean of the training clips tells.

  ``see(clip, i)`` is what there is to see of a clip's answer number i.
  """
  seen = {
    split: [(see(c, i), (i, a.word)) for c in part for i, a in enumerate(c.answers)]
    for split, part in splits.items()
  }
  classes = {word: [x for x, w in seen['train'] if w == word] for _, word in seen['train']}
  means = {word: np.mean(xs, axis=0) for word, xs in classes.items()}
  right = []
  for x, (i, word) in seen['test']:
    others = [w for w in means if w[0] == i]
    right.append(min(others, key=lambda w: np.square(means[w] - x).sum()) == (i, word))
  return np.mean(right)


def with_something(splits):
  """The clips that show what they tell of: not those of nothing."""
  return {split: [c for c in part if c.answers[0].look] for split, part in splits.items()}


def flat(array):
  return array.reshape(-1, array.shape[-1])


def test_clips_follow_from_the_seed():
  sizes = {'train': 6, 'test': 5}
  for name in PROBES:
    splits, again, other = (clips(name, seed, sizes) for seed in (3, 3, 4))
    assert {split: len(part) for split, part in splits.items()} == sizes
    for split, part in splits.items():
      for a, b in zip(part, again[split]):
        assert (a.caption, a.answers) == (b.caption, b.answers)
        for stream in a.features:
          np.testing.assert_array_equal(a.features[stream], b.features[stream])
    first = splits['train'][0].features
    for different in (other['train'][0], splits['test'][0]):
      assert all((different.features[stream] != x).any() for stream, x in first.items())


def test_answers_are_balanced(made):
  for name, splits in made.items():
    answer_counts = collections.Counter(tuple(a.word for a in c.answers) for c in splits['train'])
    if name == 'order':  # half are lights, the others pairs of things
      lights = [answer_counts.pop((word,)) for word in ('rises', 'falls')]
      assert lights[0] == lights[1] == SIZES['train'] / 4
    assert max(answer_counts.values()) == min(answer_counts.values())
    several = {'order': 12, 'event': 12, 'layers': 16, 'fusion': len(THINGS)}
    several |= {'object': len(THINGS) + 1, 'key': len(HELD) + 1}  # one of them: nothing
    assert len(answer_counts) == several[name]


def test_order_clips_and_their_reverse_have_the_same_frames(made):
  for part in made['order'].values():
    for one, other in zip(part[::2], part[1::2]):
      assert one.caption != other.caption
      assert sorted(one.caption.split()) == sorted(other.caption.split()) or 'light' in one.caption
      for stream, frames in one.features.items():
        # The same multiset of frames as stored: no pooling over time can tell the twins apart.
        stored = frames.astype(np.float16), other.features[stream].astype(np.float16)
        multisets = [collections.Counter(frame.tobytes() for frame in x) for x in stored]
        assert multisets[0] == multisets[1]
        assert (stored[0] != stored[1]).any()


def test_order_is_visible_only_in_time(made):
  def only(answers):
    return {s: [c for c in p if len(c.answers) == answers] for s, p in made['order'].items()}

  def shown(clip, i):
    """What the cell shows in each pair of frames: (4, D)."""
    cells = clip.features['cells']
    cell = flat(cells.transpose(1, 2, 0, 3)).reshape(4, 8, -1)[clip.answers[i].look['cells'][0]]
    return cell.reshape(4, 2, -1).mean(1)

  def thing(clip, i):
    """The earlier thing, or the later one."""
    pairs = shown(clip, i)
    return pairs[np.sort(np.argsort(np.square(pairs).sum(-1))[-2:])[i]]

  pooled = lambda clip, i: clip.features['image'].mean(0)  # noqa: E731
  change = lambda clip, i: shown(clip, i)[-1] - shown(clip, i)[0]  # noqa: E731
  things, lights = only(2), only(1)
  assert share_told(things, thing) == share_told(lights, change) == 1
  assert share_told(things, pooled) < 0.6
  assert share_told(lights, pooled) < 0.6


def test_object_is_visible_only_in_its_cell(made):
  at = lambda clip, i: flat(clip.features['cells'].reshape(-1, 16, 16))[  # noqa: E731
    clip.answers[i].look['slots'][0]
  ]
  frame = lambda clip, i: clip.features['cells'].reshape(-1, 16, 16)[  # noqa: E731
    clip.answers[i].look['frames'][0], clip.answers[i].look['cells'][0]
  ]
  beside = lambda clip, i: flat(clip.features['cells'])[  # noqa: E731
    clip.answers[i].look['slots'][0] - 1
  ]
  pooled = lambda clip, i: clip.features['image'].mean(0)  # noqa: E731
  of_frame = lambda clip, i: clip.features['image'][clip.answers[i].look['frames'][0]]  # noqa: E731
  shown = with_something(made['object'])
  assert share_told(shown, at) == share_told(shown, frame) > 0.99
  for elsewhere in (of_frame, beside, pooled):
    assert share_told(shown, elsewhere) < 0.4
  accuracy = share_told(made['object'], pooled)  # that there is something, not what
  assert 0.2 < accuracy < 0.55


def test_event_is_visible_in_its_frames(made):
  def halves(clip, i):
    frames = clip.answers[i].look['frames']
    return clip.features['image'][frames[2 * i : 2 * i + 2]].mean(0)

  ends = lambda clip, i: clip.features['image'][[0, -1]].mean(0)  # noqa: E731
  assert share_told(made['event'], halves) == 1
  assert share_told(made['event'], ends) < 0.4
  frames = [c.answers[0].look['frames'] for part in made['event'].values() for c in part]
  assert min(f[0] for f in frames) == 1
  assert max(f[-1] for f in frames) == 14
  in_middle = np.mean([8 in f for f in frames])
  assert 0.2 < in_middle < 0.5


def test_each_layer_determines_one_class_of_words(made):
  def at(clip, i, layer):
    return flat(clip.features[list(LAYERS)[layer]]).mean(0)

  for clip in made['layers']['test']:
    assert [a.look['layers'] for a in clip.answers] == [[0], [3]]
  assert share_told(made['layers'], lambda c, i: at(c, i, 3 * i)) == 1
  for layers in ((3, 0), (1, 1), (2, 2)):
    assert share_told(made['layers'], lambda c, i, layers=layers: at(c, i, layers[i])) < 0.4


def test_held_thing_is_visible_in_its_region_of_event_frames(made):
  at = lambda c, i, k: flat(c.features['objects'])[c.answers[i].look['slots'][k]]  # noqa: E731
  shown = with_something(made['key'])
  assert share_told(shown, lambda c, i: at(c, i, 0)) > 0.99
  assert share_told(shown, lambda c, i: at(c, i, 1)) > 0.99
  for stream in ('image', 'motion', 'objects'):
    pooled = lambda c, i, stream=stream: flat(c.features[stream]).mean(0)  # noqa: E731
    assert share_told(shown, pooled) < 0.45
  for clip in shown['test']:
    units = clip.answers[0].look['frames']
    assert [slot // 8 for slot in clip.answers[0].look['slots']] == units
    # The frames of the event are marked: farther from zero than the others.
    size = np.square(clip.features['image']).sum(-1).reshape(-1, 3).sum(-1)
    assert sorted(np.argsort(size)[-2:]) == units


def test_each_branch_determines_half_of_the_fusion_clips(made):
  seen_by = {
    stream: {
      split: [c for i, c in enumerate(part) if i % 2 == (stream == 'image')]
      for split, part in made['fusion'].items()
    }
    for stream in ('image', 'objects')
  }
  pooled = lambda stream: lambda c, i: flat(c.features[stream]).mean(0)  # noqa: E731
  assert share_told(seen_by['image'], pooled('image')) > 0.95
  assert share_told(seen_by['objects'], pooled('objects')) > 0.95
  assert share_told(seen_by['image'], pooled('objects')) < 0.45
  assert share_told(seen_by['objects'], pooled('image')) < 0.45
