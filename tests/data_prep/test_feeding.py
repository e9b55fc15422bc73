"""What networks are fed: frames, windows of frames and stretches of sound of one decoding."""

import dataclasses

import numpy as np
import pytest

from data_prep.dataset.builder import Options, build
from tests.data_prep import video_files
from tests.data_prep.video_files import SOUND_RATE, tone, write_video
from vidcap_jax.data.provenance import Making, making_of
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.errors import DataError
from vidcap_jax.features import (
  extract_folder,
  extraction,
  extractors,
  networks,
  sampling,
  stream_folders,
)
from vidcap_jax.features import video as video_module
from vidcap_jax.inference.inputs import videos_of


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
  networks.loaded.cache_clear()
  yield
  networks.loaded.cache_clear()


def extracted(path, notes=None, **streams: str):
  """Features of a video; streams as EXTRACTOR[@SAMPLING] after tell_."""
  made_by = {name: f'tell_{text}' for name, text in streams.items()}
  return extraction.extract_video(path, extractors.describe_all(made_by, {}), notes)


def test_one_decoding_serves_all_samplings(networks_that_tell, tmp_path, monkeypatch):
  path = write_video(tmp_path / 'a.mp4', video_files.ramp(11), sound=tone(1.1))
  decoded, opened = video_module._decoded, []
  monkeypatch.setattr(video_module, '_decoded', lambda *a: opened.append(a) or decoded(*a))
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


def test_sound_is_resampled_and_cut_into_stretches(networks_that_tell, tmp_path):
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


def test_absent_sound_is_not_invented(networks_that_tell, tmp_path):
  silent = write_video(tmp_path / 'silent.mp4', video_files.ramp(5))
  notes: list[str] = []
  arrays = extracted(silent, notes, image='frames', sound='audio')
  assert arrays['sound'].shape == (0, 800)
  assert len(arrays['image']) == 5
  assert notes == []  # it is nothing that a file must have
  short = write_video(tmp_path / 'short.mkv', [], container='matroska', sound=tone(0.02))
  assert extracted(short, notes, sound='audio')['sound'].shape == (0, 800)
  assert '0.02 seconds of sound, taken for absent (at least 0.05 are needed)' in notes[0]


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


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    ('a:random_sequence@window=16/8', "'a'.*window"),
    ('a:random_windows@hop=1', "'a'.*hop"),
    ('a:random_sound@every=5', "'a'.*every"),
    ('a:random_sequence@', "'a'.*KEY=NUMBER"),
  ],
)
def test_a_sampling_must_fit_the_network(text, message):
  name, _, made_by = text.partition(':')
  with pytest.raises(extractors.ExtractorError, match=message):
    extractors.describe_all({name: made_by}, {})


def test_the_usual_sampling_is_for_single_frames():
  made_by = {'a': 'random_sequence', 'b': 'random_sequence@every=5', 'c': 'random_windows'}
  described = extractors.describe_all({**made_by, 'd': 'random_sound'}, {'uniform': 3})
  assert {name: sampling.text_of(d['sampling']) for name, d in described.items()} == {
    'a': 'uniform=3',
    'b': 'every=5',
    'c': 'every=1+window=16/8',
    'd': 'hop=0.96',
  }


def test_extraction_building_and_prediction_agree_on_absent_sound(tmp_path):
  sounds = {'v0': tone(2), 'v1': None, 'v2': tone(3, 900)}
  folder = tmp_path / 'videos'
  folder.mkdir()
  paths = {
    name: write_video(folder / f'{name}.mp4', video_files.ramp(12), sound=sound)
    for name, sound in sounds.items()
  }
  made_by = {'image': 'random_sequence@every=5', 'sound': 'random_sound'}
  streams = extractors.describe_all(made_by, {})
  for attempt in range(2):  # known to be absent, it is not looked for again
    outcome = extract_folder.extract(paths, streams, tmp_path / 'features', workers=1)
    assert outcome.absent == {'v1': ['sound']}
    assert len(outcome.kept) == 3 * attempt
  assert not outcome.failed
  file = stream_folders.file_of(tmp_path / 'features', 'sound', 'v1')
  assert np.load(file).shape == (0, 128)

  rows = [f'{{"video_id": "{name}", "caption": "a cat", "split": "train"}}' for name in sounds]
  (tmp_path / 'captions.jsonl').write_text('\n'.join(rows))
  options = Options(
    form='jsonl',
    annotations=(str(tmp_path / 'captions.jsonl'),),
    features={name: str(tmp_path / 'features' / name) for name in made_by},
    out=str(tmp_path / 'set'),
    min_count=1,
  )
  with pytest.raises(DataError, match='1 of 3 videos have bad.*v1.*--optional=sound'):
    build(options)
  build(dataclasses.replace(options, optional=('sound',)))
  manifest = read_manifest(tmp_path / 'set')
  assert manifest.coverage['train']['streams'] == {'image': 3, 'sound': 2}
  stored = {video.video_id: video.features for video in open_split(tmp_path / 'set', 'train')}
  assert {name: len(f['sound']) for name, f in stored.items()} == {'v0': 2, 'v1': 0, 'v2': 3}

  predicted = dict(videos_of(making_of(manifest, manifest.streams), str(folder)))
  assert len(predicted) == 3
  for path, video in predicted.items():
    for name, array in video.features.items():
      np.testing.assert_array_equal(array, stored[video.video_id][name], err_msg=path)
  needed = tuple(dataclasses.replace(stream, optional=False) for stream in manifest.streams)
  failed = [r for r in dict(videos_of(Making(needed), str(folder))).values() if isinstance(r, str)]
  assert len(failed) == 1
  assert 'it has no sound' in failed[0]


def test_prediction_from_videos_keeps_what_the_build_kept(tmp_path):
  folder = tmp_path / 'videos'
  folder.mkdir()
  paths = {'v0': write_video(folder / 'v0.mp4', video_files.ramp(12))}
  made_by = {'image': 'random_sequence@every=1', 'objects': 'random_regions@every=2'}
  streams = extractors.describe_all(made_by, {})
  assert not extract_folder.extract(paths, streams, tmp_path / 'features', workers=1).failed
  (tmp_path / 'captions.jsonl').write_text('{"video_id": "v0", "caption": "a cat"}\n')
  manifest, _ = build(
    Options(
      form='jsonl',
      annotations=(str(tmp_path / 'captions.jsonl'),),
      features={name: str(tmp_path / 'features' / name) for name in made_by},
      split='train',
      out=str(tmp_path / 'set'),
      min_count=1,
      dtype='float32',  # of what extraction has made float16
      align={'image+objects': 'truncate'},
      max_frames={'image': 4},
      max_regions={'objects': 2},
    )
  )
  stored = open_split(tmp_path / 'set', 'train')[0].features
  assert {name: a.shape[:-1] for name, a in stored.items()} == {'image': (4,), 'objects': (6, 2)}
  for read in (manifest.streams, manifest.streams[:1]):
    ((_, video),) = videos_of(making_of(manifest, read), str(folder / 'v0.mp4'))
    for name, array in video.features.items():
      np.testing.assert_array_equal(array, stored[name], strict=True)
