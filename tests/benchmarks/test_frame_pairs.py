"""Pictures of two frames side by side become folders of frames, in order."""

import numpy as np
import pytest

from benchmarks import frame_pairs

Image = pytest.importorskip('PIL.Image')


def write_pair(folder, left: int, right: int) -> None:
  folder.mkdir(parents=True)
  picture = np.full((24, 64, 3), left, np.uint8)
  picture[:, 32:] = right
  Image.fromarray(picture).save(folder / f'concat_img{left}_img{right}.jpg', quality=100)


def test_frames_are_in_the_order_of_shots_and_pairs(tmp_path, capsys):
  pairs = tmp_path / 'pairs'
  write_pair(pairs / 'Test_video7-shot10_0', 90, 110)
  write_pair(pairs / 'Test_video7-shot2_1', 50, 70)
  write_pair(pairs / 'Test_video7-shot2_0', 10, 30)
  write_pair(pairs / 'Test_video8-shot0_0', 130, 150)
  (pairs / '.DS_Store').touch()
  assert frame_pairs.main([f'--pairs={pairs}', f'--output={tmp_path / "frames"}']) == 0
  assert '8 frames of 2 videos' in capsys.readouterr().out
  files = sorted((tmp_path / 'frames' / 'video7').iterdir())
  frames = [np.asarray(Image.open(file)) for file in files]
  assert {frame.shape for frame in frames} == {(24, 32, 3)}
  np.testing.assert_allclose([f.mean() for f in frames], [10, 30, 50, 70, 90, 110], atol=2)


def test_no_such_folder(tmp_path):
  pairs = tmp_path / 'gone'
  with pytest.raises(SystemExit, match=f'--pairs={pairs}.*all_concat'):
    frame_pairs.main([f'--pairs={pairs}', f'--output={tmp_path / "frames"}'])


def test_other_folders_are_named(tmp_path):
  (tmp_path / 'clips').mkdir()
  for pairs in (tmp_path, tmp_path / 'clips'):
    with pytest.raises(SystemExit, match='clips'):
      frame_pairs.main([f'--pairs={pairs}', f'--output={tmp_path / "frames"}'])
