"""Exported decoding gives the captions of the checkpoint, for every model."""

import dataclasses

import numpy as np
import pytest
from ml_collections import ConfigDict

from tests.cases import CASES, EVERY_TIME, V
from tests.exported import ONE_STREAM, as_file, restored_of, serve, videos_of
from vidcap_jax import models
from vidcap_jax.errors import ConfigError, UserError
from vidcap_jax.inference import captioning, export


def cases():
  """(case, method), all but one marked slow. Beam search adds nothing of a model's own."""
  for case in CASES:
    for method in export.METHODS if case.name in EVERY_TIME else ('greedy',):
      marks = () if (case.name, method) == ('global2local', 'greedy') else pytest.mark.slow
      yield pytest.param(case, method, marks=marks, id=f'{case.name}-{method}')


@pytest.mark.parametrize(('case', 'method'), list(cases()))
def test_every_model(case, method, tmp_path, monkeypatch):
  restored = restored_of(case)
  monkeypatch.setattr(export, 'METHODS', (method,))
  export.export(restored, tmp_path / 'out')
  manifest, words, caption = serve.load(tmp_path / 'out', method)
  assert len(words) == V

  restored.config.decode = ConfigDict(export.decode_settings(restored.config.decode, method))
  own = captioning.captioner_of(restored, 8)
  short, long = videos_of(restored, (1, 2, 1)), videos_of(restored, (3, 1, 9, 2, 20))
  for videos, rows in (short, 3), (long, 6):
    arrays = {
      video.video_id: {s['name']: serve.check(as_file(video, s), s) for s in manifest['streams']}
      for video in videos
    }
    inputs = serve.batch_of(arrays, manifest, rows)
    made = caption(inputs)
    assert made['tokens'].shape == (rows, 2 if method == 'beam' else 1, restored.length)
    expected = own(videos, [video.video_id for video in videos])
    for row, video in enumerate(expected):
      several = video.get('captions', [video])
      texts = [serve.text_of(tokens, words) for tokens in made['tokens'][row]]
      assert texts == [c['caption'] for c in several], video['video_id']
      log_probs = [c['log_prob'] for c in several]
      np.testing.assert_allclose(made['log_prob'][row], log_probs, rtol=1e-4, atol=1e-5)
    assert len({round(video['log_prob'], 3) for video in expected}) > 1  # it looks at them


def test_models_that_cannot_be_exported(tmp_path):
  checkpoint = restored_of(ONE_STREAM)
  (tmp_path / 'full').mkdir()
  (tmp_path / 'full' / 'file').touch()
  with pytest.raises(UserError, match='--output=.*empty'):
    export.export(checkpoint, tmp_path / 'full')
  embedding = dataclasses.replace(
    checkpoint, module=models.build({'name': 'embedding', 'streams': ('image',)}, V)
  )
  with pytest.raises(ConfigError, match='which compares captions'):
    export.export(embedding, tmp_path / 'new')
  assert not (tmp_path / 'new').exists()
  config = checkpoint.config.copy_and_resolve_references()
  config.decode.n_best = 4
  with pytest.raises(ConfigError, match='n_best=4.*raise decode.beam'):
    export.export(dataclasses.replace(checkpoint, config=config), tmp_path / 'new')
