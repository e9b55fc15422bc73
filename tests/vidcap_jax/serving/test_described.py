"""The description of the model."""

import json

from vidcap_jax.serving import described


def test_the_description_of_a_model(service, run_folder):
  shown = described.model(service)
  assert shown['name'] == 'temporal_spatial'
  assert shown['data_set'] == 'mine'
  assert shown['reads_files']
  assert '.mp4' in shown['file_types']
  [stream] = shown['streams']
  assert (stream['name'], stream['shape']) == ('image', [None, 128])
  assert shown['vocabulary_size'] == len(service.programs.members[0].vocabulary)
  assert shown['decoding']['beams'] == [2]
  assert shown['decoding']['default']['method'] == 'greedy'
  [checkpoint] = shown['checkpoints']
  assert (checkpoint['stage'], checkpoint['metric']) == ('xe', 'CIDEr')
  assert str(run_folder) not in json.dumps(shown)
