"""What a stage prints and writes of a validation."""

from etils import epath

from vidcap_jax.training.metric_log import Sample
from vidcap_jax.training.recorder import Recorder


def test_captions_are_printed_beside_references(tmp_path):
  lines = []
  recorder = Recorder(
    epath.Path(tmp_path), {'stage': 'xe'}, lines.append, None, step=0, keep=1, tensorboard=False
  )
  recorder.write_captions(2, 'val', [Sample('v7', 'a man', 'a man sings'), Sample('v8', '', 'x')])
  assert [line.split(':')[0].strip() for line in lines] == ['v7', 'v8']
  assert 'a man  [a man sings]' in lines[0]
  assert '(empty)' in lines[1]
