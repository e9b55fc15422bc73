"""Programs that are compiled at the start, with values that requests choose."""

import numpy as np
import pytest

import vidcap_jax as vc
from vidcap_jax.data.records import Video
from vidcap_jax.errors import ConfigError
from vidcap_jax.serving.programs import Decoding, Program, Programs


@pytest.fixture(scope='module')
def videos():
  rng = np.random.default_rng(0)
  return [
    Video(str(i), (), {'image': rng.normal(size=(2 + i, 8)).astype(np.float16)}) for i in range(3)
  ]


def test_programs_for_one_caption_and_for_the_most(restored):
  programs = Programs([restored], None, (4, 2), 3, (8, 2, 8))
  assert programs.beams == (2, 4)
  assert programs.batch_sizes == (2, 8)
  assert [*programs.all_programs()] == [
    Program('greedy'),
    *(Program('beam', 2, 1), Program('beam', 2, 2), Program('beam', 4, 1), Program('beam', 4, 3)),
    *(Program('sample', 0, 1), Program('sample', 0, 3)),
  ]
  assert programs.program_for('beam', 4, 2) == Program('beam', 4, 3)
  assert programs.program_for('greedy', 4, 1) == Program('greedy')
  with pytest.raises(ConfigError, match=r'captions=3.* 2'):
    programs.program_for('beam', 2, 3)


def test_an_ensemble_captions_as_that_of_predict(restored, tiny_run, videos):
  members = [restored, restored]
  programs = Programs(members, (2.0, 1.0), (2,), 2, (4,))
  captioner = vc.load([tiny_run, tiny_run], weights=[2, 1])
  features = [video.features for video in videos]
  decoded = programs.run(videos, [0, 0, 0], Decoding(Program('beam', 2, 2), (0.9,), 2))
  expected = captioner.caption(
    features=features, beam=2, captions=2, length_penalty=0.9, progress=False
  )
  for candidates, result in zip(decoded, expected, strict=True):
    assert [each.caption for each in candidates] == [each.caption for each in result.captions]
    assert candidates[0].log_prob == pytest.approx(result.log_prob, abs=1e-3)


def test_samples_depend_on_the_row_alone(restored, videos):
  programs = Programs([restored], None, (2,), 2, (4,))
  how = Decoding(Program('sample', 0, 2), (1.0, 0.0, 1.0), 2)
  together = programs.run([videos[0]] * 3, [5, 0, 9], how)
  [alone] = programs.run([videos[0]], [9], how)
  assert [each.caption for each in together[2]] == [each.caption for each in alone]
  assert len({candidates[0].caption for candidates in together}) > 1
