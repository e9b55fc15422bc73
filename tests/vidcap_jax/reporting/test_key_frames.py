import dataclasses

import numpy as np
import pytest

from tests.cases import CASES
from tests.exported import restored_of, videos_of
from tests.vidcap_jax.studies.explained import ATTENTIONS, EXPLAINED, T, attention
from vidcap_jax.data.records import Video
from vidcap_jax.reporting import attention as reported
from vidcap_jax.reporting import key_frames
from vidcap_jax.studies import weights

CASE_OF = {case.name: case for case in CASES}
ALL = {a.name: a for a in ATTENTIONS}


def saved(frame: int) -> Video:
  return Video('v', (), {}, key_frame=frame)


def test_the_saved_key_frame_is_a_row_of_the_stored_features():
  rows = np.array([0, 3, 6, 9])
  own = {'temporal': dataclasses.replace(ALL['temporal'], rows=rows)}
  assert key_frames.key_frame(own, saved(2)) == ('cells', 6)
  assert key_frames.key_frame(own, saved(T)) is None  # of frames that the model does not read
  assert key_frames.key_frame(own, saved(-1)) is None
  assert key_frames.key_frame({}, saved(2)) is None


def test_the_key_frame_that_the_model_chooses():
  weights = np.tile([0.1, 0.2, 0.6, 0.1], (3, 1))
  chooser = dataclasses.replace(attention('keyframe', ('frames',), (T,)), weights=weights)
  own = {'temporal': ALL['temporal'], 'keyframe': chooser}
  assert key_frames.key_frame(own, saved(-1)) == ('cells', 2)
  assert key_frames.key_frame(own, saved(1)) == ('cells', 1)
  assert key_frames.key_frame({'keyframe of 1': chooser}, saved(-1)) == ('cells', 2)


def test_picks_of_each_word():
  picks = EXPLAINED.attentions['keyframe'].weights.argmax(axis=-1)
  chosen = key_frames.chosen_frames('keyframe', ALL)
  assert chosen == tuple(tuple(sorted({*row})) for row in picks.tolist())


def test_a_choice_of_one_frame_but_no_mixture():
  assert key_frames.chosen_frames('temporal', ALL) == ()
  hard = dataclasses.replace(ALL['temporal'], weights=np.eye(T)[[2, 0, 2]])
  for suffix in ('', ' of 1'):
    own = {f'temporal{suffix}': hard, f'ts_spatial{suffix}': ALL['ts_spatial']}
    assert key_frames.chosen_frames(f'temporal{suffix}', own) == ((2,), (0,), (2,))
  assert key_frames.chosen_frames('temporal', {'temporal': hard}) == ()  # it chooses no places


def explained(name: str):
  """(checkpoint, captions with attention) of a model of ``tests/cases.py``."""
  restored = restored_of(CASE_OF[name])
  return restored, weights.explain(restored, videos_of(restored, (2, 3, 4)))


@pytest.mark.slow
def test_the_key_frames_of_a_refocus_model():
  """The saved one of video1, and for the other videos the frame of the largest weight."""
  restored, results = explained('refocus_key_frames_given')
  for result in results:
    saved_frame = restored.key_frames.get(result.video.video_id, -1)
    video = dataclasses.replace(result.video, key_frame=saved_frame)
    chooser = result.attentions['keyframe']
    expected = saved_frame if saved_frame >= 0 else int(chooser.weights[0].argmax())
    found = key_frames.key_frame(result.attentions, video)
    assert found == (chooser.axes.stream, int(chooser.rows[expected]))
    [temporal] = [m for m in reported.maps_of(result.attentions) if m.name == 'temporal']
    assert found in temporal.frames
    assert temporal.chosen == ()


@pytest.mark.slow
def test_the_regions_of_the_frame_that_stats_chooses():
  _, results = explained('stats on regions')
  for result in results:
    maps = {each.name: each for each in reported.maps_of(result.attentions)}
    chosen = result.attentions['ts_temporal'].weights.argmax(axis=-1)
    assert maps['ts_spatial'].chosen == tuple((frame,) for frame in chosen.tolist())
    assert maps['ts_spatial'].weights.shape[2] > 1
    assert maps['st_spatial'].chosen == ()
