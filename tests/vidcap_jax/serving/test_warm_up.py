"""What is read at the start."""

from vidcap_jax.data.provenance import FeatureProvenance
from vidcap_jax.data.schema import Stream
from vidcap_jax.features import video
from vidcap_jax.serving import media, warm_up


def test_a_clip_with_sound_and_a_picture(tmp_path):
  clip, picture = warm_up.write_files(tmp_path)
  requests = {'frames': video.Pictures({'every': 1}, 32), 'sound': video.Sound(16_000)}
  read = [key for key, _ in video.read(clip, requests)]
  assert read.count('frames') == 40
  assert read.count('sound') > 0
  for path in (clip, picture):
    assert media.ending_of(path.read_bytes()[: media.START_BYTES]) == path.suffix


def test_features_of_all_kinds():
  streams = (
    Stream('a', 'vector', (4,)),
    Stream('b', 'sequence', (None, 4), 'float32'),
    Stream('c', 'grid', (None, 2, 3, 4)),
    Stream('d', 'regions', (None, None, 4)),
  )
  features = warm_up.example_video(FeatureProvenance(streams)).features
  shapes = {name: array.shape for name, array in features.items()}
  assert shapes == {'a': (4,), 'b': (1, 4), 'c': (1, 2, 3, 4), 'd': (1, 1, 4)}
  assert features['b'].dtype == 'float32'
