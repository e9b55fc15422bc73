"""Submissions can be read back as captions to score."""

import json

from vidcap_jax.annotations import caption_files
from vidcap_jax.evaluation import submission


def test_server_forms_are_written_and_read_back(tmp_path):
  captions = {'v1': 'ein Hündchen', 'v2': 'a cat'}
  submission.write_vatex(tmp_path / 'v.json', captions)
  assert json.loads((tmp_path / 'v.json').read_text()) == captions
  submission.write_msrvtt(tmp_path / 'm.json', captions, 'ImageNet features')
  assert json.loads((tmp_path / 'm.json').read_text()) == {
    'version': 'VERSION 1.0',
    'result': [
      {'video_id': 'v1', 'caption': 'ein Hündchen'},
      {'video_id': 'v2', 'caption': 'a cat'},
    ],
    'external_data': {'used': 'true', 'details': 'ImageNet features'},
  }
  assert caption_files.read_hypotheses(tmp_path / 'm.json') == captions
  submission.write_msrvtt(tmp_path / 'n.json', captions)
  none = json.loads((tmp_path / 'n.json').read_text())['external_data']
  assert none == {'used': 'false', 'details': ''}
