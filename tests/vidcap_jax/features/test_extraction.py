"""Extraction of a video: reproducible results, shared passes, and the inputs of networks."""

import numpy as np
import pytest

from tests import video_files
from tests.building import described
from tests.video_files import SOUND_RATE, tone, write_video
from vidcap_jax.features import (
  extract_folder,
  extraction,
  extractors,
  networks,
  video,
)
from vidcap_jax.features import video as video_module

RANDOM = ('random_vector', 'random_sequence', 'random_grid', 'random_regions')


def test_a_video_alone_and_in_a_folder_give_the_same(paths, tmp_path):
  streams = described('random_sequence', 'random_grid')
  extract_folder.extract(paths, streams, tmp_path)
  for video_id, path in paths.items():
    alone = extraction.extract_video(path, streams)
    for name in streams:
      stored = np.load(tmp_path / name / f'{video_id}.npy')
      assert stored.dtype == np.float16
      np.testing.assert_array_equal(stored, alone[name].astype(np.float16))


def test_result_does_not_depend_on_batches(paths, monkeypatch):
  """Whole batches and parts of one give the same features; smaller batches round differently."""
  path = next(iter(paths.values()))
  every, half, fifth = (
    extraction.extract_video(path, described('random_sequence', how={'every': n}))[
      'random_sequence'
    ]
    for n in (1, 2, 5)
  )
  batch = networks.NETWORKS['random'].batch
  assert len(fifth) < batch < len(half) < len(every)
  np.testing.assert_array_equal(every[::2], half)
  np.testing.assert_allclose(every[::5], fifth, rtol=1e-5, atol=1e-5)


def test_streams_share_a_pass(paths, monkeypatch):
  passes = []
  read = video.read
  monkeypatch.setattr(video, 'read', lambda *a, **k: passes.append(a) or read(*a, **k))
  path = next(iter(paths.values()))
  extraction.extract_video(path, described(*RANDOM))
  assert len(passes) == 1
  streams = {
    'a': extractors.describe('random_vector', {'uniform': 2}),
    'b': extractors.describe('random_vector', {'uniform': 3}),
  }
  extraction.extract_video(path, streams)
  assert len(passes) == 2  # also where samplings differ


def levels(frames: np.ndarray) -> np.ndarray:
  """Which of the ramp's frames these are."""
  return np.round((frames.astype(np.float32).mean((-3, -2, -1)) - 10) / 5)


@pytest.fixture
def networks_that_tell(monkeypatch):
  """Extractors whose features say what the network was fed."""
  kinds = {
    'frames': (networks.Network(32, lambda: lambda x, _: {'fed': levels(x)[:, None]}), 1),
    'windows': (
      networks.Network(32, lambda: lambda x, _: {'fed': levels(x)}, reads='windows', batch=2),
      4,
    ),
    'audio': (networks.Network(800, lambda: lambda x, _: {'fed': x}, reads='audio', batch=3), 800),
  }
  default = {
    'frames': {'every': 1},
    'windows': {'every': 1, 'window': 4, 'stride': 2},
    'audio': {'hop': 0.05},
  }
  for name, (network, channels) in kinds.items():
    monkeypatch.setitem(networks.NETWORKS, f'tell_{name}', network)
    extractor = extractors.Extractor(
      'sequence', (None, channels), '1', f'tell_{name}', ('fed',), lambda fed: fed, default[name]
    )
    monkeypatch.setitem(extractors.REGISTRY, f'tell_{name}', extractor)
  networks.load_network.cache_clear()
  yield
  networks.load_network.cache_clear()


def extracted(path, notes=None, **streams: str):
  """Features of a video; streams as EXTRACTOR[@SAMPLING] after tell_."""
  made_by = {name: f'tell_{text}' for name, text in streams.items()}
  return extraction.extract_video(path, extractors.describe_all(made_by, {}), notes)


def test_all_samplings_share_one_decoding(networks_that_tell, tmp_path, monkeypatch):
  path = write_video(tmp_path / 'a.mp4', video_files.ramp(11), sound=tone(1.1))
  decoded, opened = video_module.decoded_parts, []
  monkeypatch.setattr(video_module, 'decoded_parts', lambda *a: opened.append(a) or decoded(*a))
  arrays = extracted(
    path,
    all='frames',
    fifth='frames@every=5',
    third='frames@every=1+one_in=3',
    parts='frames@uniform=3',
    seconds='frames@fps=5',
    windows='windows',
    apart='windows@window=3/4',
    slow='windows@fps=5',
    sound='audio',
  )
  assert len(opened) == 1
  found = {n: a.astype(int).tolist() for n, a in arrays.items() if n != 'sound'}
  rows = lambda *numbers: [[n] for n in numbers]  # noqa: E731
  assert found['all'] == rows(*range(11))
  assert found['fifth'] == rows(0, 5, 10)
  assert found['third'] == rows(1, 4, 7, 10)
  assert found['parts'] == rows(1, 5, 9)
  assert found['seconds'] == rows(0, 2, 4, 6, 8, 10)
  assert found['windows'] == [[i, i + 1, i + 2, i + 3] for i in (0, 2, 4, 6)]
  assert found['apart'] == [[0, 1, 2], [4, 5, 6], [8, 9, 10]]
  assert found['slow'] == [[0, 2, 4, 6], [4, 6, 8, 10]]
  assert len(arrays['sound']) == 22


def test_a_video_too_short_for_a_window_repeats_its_last_frame(networks_that_tell, tmp_path):
  path = write_video(tmp_path / 'a.mp4', video_files.ramp(3))
  assert extracted(path, w='windows')['w'].tolist() == [[0, 1, 2, 2]]
  path = write_video(tmp_path / 'b.mp4', video_files.ramp(1))
  assert extracted(path, w='windows')['w'].tolist() == [[0, 0, 0, 0]]


def test_whole_frames_keep_their_shape(monkeypatch, tmp_path):
  shapes = []
  network = networks.Network(
    None, lambda: lambda x, _: shapes.append(x.shape) or {'fed': x.mean((1, 2))}, scale=24, batch=2
  )
  monkeypatch.setitem(networks.NETWORKS, 'whole', network)
  extractor = extractors.Extractor('sequence', (None, 3), '1', 'whole', ('fed',), lambda fed: fed)
  monkeypatch.setitem(extractors.REGISTRY, 'whole', extractor)
  path = write_video(tmp_path / 'a.mp4', [np.full((48, 96, 3), 90, np.uint8)] * 3)
  made = extraction.extract_video(path, {'x': extractors.describe('whole', {'every': 1})})['x']
  assert shapes == [(2, 24, 48, 3)] * 2
  np.testing.assert_allclose(made, np.full((3, 3), 90), atol=3)


def test_videos_shorter_than_a_batch_are_hardly_padded(monkeypatch, tmp_path):
  sizes = []
  network = networks.Network(32, lambda: lambda x, _: sizes.append(len(x)) or {'fed': levels(x)})
  monkeypatch.setitem(networks.NETWORKS, 'counting', network)
  extractor = extractors.Extractor('sequence', (None,), '1', 'counting', ('fed',), lambda fed: fed)
  monkeypatch.setitem(extractors.REGISTRY, 'counting', extractor)
  stream = {'x': extractors.describe('counting', {'every': 1})}
  for frames, expected in ((1, [1]), (2, [2]), (3, [4]), (7, [8]), (8, [8]), (9, [8, 8])):
    sizes.clear()
    path = write_video(tmp_path / f'{frames}.mp4', video_files.ramp(frames))
    assert extraction.extract_video(path, stream)['x'].tolist() == list(range(frames))
    assert sizes == expected


def test_sound_is_resampled_and_cut_into_segments(networks_that_tell, tmp_path):
  path = write_video(tmp_path / 'a.mkv', video_files.ramp(10), container='matroska', sound=tone(1))
  arrays = extracted(path, side='audio', over='audio@hop=0.025', apart='audio@hop=0.1')
  assert [len(array) for array in arrays.values()] == [20, 39, 10]
  wave = arrays['side'].reshape(-1)  # 16,000 samples a second
  spectrum = np.abs(np.fft.rfft(wave))
  assert abs(spectrum.argmax() - 440) <= 1
  assert 0.48 < np.abs(wave[800:-800]).max() < 0.52
  np.testing.assert_array_equal(arrays['over'][::2], arrays['side'])
  np.testing.assert_array_equal(arrays['over'][1], wave[400:1200])
  np.testing.assert_array_equal(arrays['apart'], arrays['side'][::2])


def test_channels_are_averaged(networks_that_tell, tmp_path):
  both = np.stack([tone(1), np.zeros(SOUND_RATE, np.float32)])
  path = write_video(tmp_path / 'a.mkv', [], container='matroska', sound=both)
  assert 0.24 < np.abs(extracted(path, sound='audio')['sound'][1:-1]).max() < 0.26


def test_videos_without_sound_give_no_frames(networks_that_tell, tmp_path):
  silent = write_video(tmp_path / 'silent.mp4', video_files.ramp(5))
  notes: list[str] = []
  arrays = extracted(silent, notes, image='frames', sound='audio')
  assert arrays['sound'].shape == (0, 800)
  assert len(arrays['image']) == 5
  assert notes == []  # it is nothing that a file must have
  short = write_video(tmp_path / 'short.mkv', [], container='matroska', sound=tone(0.02))
  assert extracted(short, notes, sound='audio')['sound'].shape == (0, 800)
  assert '0.02 seconds of sound, at least 0.05' in notes[0]


def test_damaged_sound_gives_what_decodes_and_a_note(networks_that_tell, tmp_path):
  noise = np.random.default_rng(0).normal(0, 0.2, 4 * SOUND_RATE).astype(np.float32)
  path = write_video(tmp_path / 'a.mp4', [], sound=noise)
  data = bytearray(path.read_bytes())
  middle = data.index(b'mdat') + len(data) // 2
  data[middle : middle + 1500] = bytes(1500)
  path.write_bytes(bytes(data))
  notes: list[str] = []
  assert 20 < len(extracted(path, notes, sound='audio')['sound']) <= 81
  assert len(notes) == 1
  assert f'{path}: sound damaged: ' in notes[0]


def test_a_file_of_sound_alone(networks_that_tell, tmp_path):
  path = write_video(tmp_path / 'a.mp4', [], sound=tone(1))
  assert len(extracted(path, sound='audio')['sound']) >= 20
  with pytest.raises(video_module.VideoError, match='no video stream'):
    extracted(path, image='frames', sound='audio')
