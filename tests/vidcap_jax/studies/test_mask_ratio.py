"""The mask-ratio experiment: what is dropped, and that nothing dropped is ordinary evaluation."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny
from vidcap_jax import models
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.inference import captioning
from vidcap_jax.studies import mask_ratio

WEIGHTS = jnp.asarray([[0.1, 0.4, 0.2, 0.3, 0.0], [0.6, 0.0, 0.0, 0.4, 0.0], [0, 0, 0, 0, 0]])
VALID = jnp.asarray([[1, 1, 1, 1, 0], [1, 0, 0, 1, 0], [0, 0, 0, 0, 0]], bool)


def dropped(ratio, weights=WEIGHTS, mask=VALID):
  return np.asarray(jax.jit(mask_ratio.drop_smallest)(weights, mask, jnp.float32(ratio)))


def test_dropping_nothing_changes_nothing():
  np.testing.assert_array_equal(dropped(0.0), WEIGHTS)
  np.testing.assert_array_equal(dropped(0.24), WEIGHTS)  # less than a whole slot


def test_the_smallest_valid_weights_are_dropped_and_the_rest_sum_to_one():
  np.testing.assert_allclose(
    dropped(0.5)[:2], [[0, 0.4 / 0.7, 0, 0.3 / 0.7, 0], [1, 0, 0, 0, 0]], rtol=1e-6
  )
  np.testing.assert_allclose(dropped(0.75)[0], [0, 1, 0, 0, 0], rtol=1e-6)
  np.testing.assert_allclose(dropped(0.25)[0], np.array([0, 4, 2, 3, 0]) / 9, rtol=1e-6)


def test_dropping_everything_leaves_zeros():
  np.testing.assert_array_equal(dropped(1.0), 0)


def test_the_first_of_equal_weights_are_dropped_first():
  even = jnp.full((1, 4), 0.25)
  np.testing.assert_allclose(dropped(0.5, even, jnp.ones((1, 4), bool)), [[0, 0, 0.5, 0.5]])


@pytest.mark.parametrize('slots', [1, 2, 3, 7, 10, 20, 60])
def test_the_ratio_of_weights_is_dropped(slots):
  """A slot that is not valid is never chosen, whatever its value."""
  rng = np.random.default_rng(slots)
  weights = np.concatenate([rng.dirichlet(np.ones(slots), 3), np.zeros((3, 2))], 1)
  mask = np.arange(slots + 2)[None].repeat(3, 0) < slots
  for tenths in range(11):
    left = dropped(tenths / 10, jnp.asarray(weights, jnp.float32), jnp.asarray(mask))
    count = slots * tenths // 10
    assert ((left > 0).sum(-1) == slots - count).all()
    assert (left[~mask] == 0).all()
    np.testing.assert_allclose(left.sum(-1), 0 if count == slots else 1, rtol=1e-5)


@pytest.fixture(scope='module')
def restored(tiny_run):
  return restore.restore(restore.find_checkpoint(str(tiny_run)), mesh.make_mesh())


@pytest.fixture(autouse=True, scope='module')
def no_java():
  with tiny.without_java():
    yield


@pytest.fixture(scope='module')
def result(restored, tiny_data):
  ratios = (0.0, 0.5, 1.0)
  return mask_ratio.measure(restored, tiny_data, 'val', ['temporal'], ratios, ('BLEU', 'CIDEr'))


def test_ratio_0_is_ordinary_evaluation(restored, tiny_data, result):
  source = open_split(tiny_data, 'val')
  ids = [source[i].video_id for i in range(len(source))]
  plain = {c['video_id']: c['caption'] for c in captioning.captioner_of(restored)(source, ids)}
  assert mask_ratio.captioner_of(restored, source, ids)({'temporal': 0.0}) == plain
  assert result['curves'][0]['scores'] == result['original']
  assert set(result['original']) == {'BLEU_1', 'BLEU_2', 'BLEU_3', 'BLEU_4', 'CIDEr'}
  assert result['videos'] == 3


def test_saved_key_frames_are_those_of_ordinary_evaluation(restored, tiny_data, monkeypatch):
  def key_frames(run, params, batches, ids, *_):
    rows = [row for _, b in batches for row in zip(b['video_index'], b['key_frame'])]
    return [{'video_id': ids[i], 'caption': int(frame)} for i, frame in rows if i >= 0]

  fixed = dataclasses.replace(restored, meta={**restored.meta, 'key_frames': {'v7': 1, 'v9': 0}})
  source = open_split(tiny_data, 'val')
  ids = [video.video_id for video in source]
  monkeypatch.setattr(captioning, 'caption_videos', key_frames)
  caption = mask_ratio.captioner_of(fixed, source, ids)
  assert caption({'temporal': 0.0}) == {'v7': 1, 'v8': -1, 'v9': 0}


def test_log_probabilities_of_captions_by_ratio(restored, tiny_data):
  """At 0 those of the model itself, at 1 those of an attention that gives zeros."""

  def decoder(edit):
    module = mask_ratio.with_edit(restored.module, edit)
    about = (restored.streams, restored.vocabulary, restored.config, restored.length)
    return captioning.make_decoder(module, *about)

  needs = restored.module.config.needs
  source = open_split(tiny_data, 'val')
  _, batch = next(
    captioning.eval_batches(
      source, restored.vocabulary, restored.streams, needs, restored.config, restored.mesh
    )
  )
  whole = decoder(None)(restored.params, batch)
  nothing = decoder(lambda name, weights, mask: jnp.zeros_like(weights))(restored.params, batch)
  decode = mask_ratio.make_decoder(restored)
  for ratio, expected in ((0.0, whole), (1.0, nothing)):
    made = decode(restored.params, batch, {'temporal': jnp.float32(ratio)})
    np.testing.assert_array_equal(made.tokens, expected.tokens)
    np.testing.assert_allclose(made.log_prob, expected.log_prob, rtol=1e-5)
  half = decode(restored.params, batch, {'temporal': jnp.float32(0.5)})
  for other in (whole, nothing):
    assert np.abs(half.log_prob - other.log_prob).max() > 1e-4


def test_results_are_shares_of_the_original(result):
  assert [(row['attention'], row['ratio']) for row in result['curves']] == [
    ('temporal', 0.0),
    ('temporal', 0.5),
    ('temporal', 1.0),
  ]
  for row in result['curves']:
    for name, score in row['scores'].items():
      original = result['original'][name]
      expected = score / original if original else None
      assert row['relative'][name] == expected
  lines = mask_ratio.table(result).splitlines()
  assert lines[0] == 'temporal'
  assert lines[1].split() == ['ratio', 'BLEU_4', 'CIDEr']
  assert [line.split()[0] for line in lines[2:]] == ['0.00', '0.50', '1.00']
  assert lines[2].split()[2] == f'{result["original"]["CIDEr"]:.4f}'


@pytest.mark.parametrize(
  ('changes', 'error', 'message'),
  [
    ({'attentions': ['spatial']}, ConfigError, "--attention: .*'spatial'.* temporal"),
    ({'attentions': ['temporal+x']}, ConfigError, "--attention: .*'x'.* temporal"),
    ({'ratios': [0.5, 1.5]}, ConfigError, r'--ratios: .*1\.5'),
    ({'metric_names': ['SPICE']}, ConfigError, r"--metrics: unknown \['SPICE'\]; known: BLEU"),
    ({'split': 'valid'}, DataError, "split 'valid'.* train, val, test"),
    ({'split': 'test'}, DataError, "split 'test' .*references"),
  ],
)
def test_wrong_arguments(changes, error, message, restored, tiny_data):
  arguments = {'split': 'val', 'attentions': ['temporal'], 'ratios': [0.0], **changes}
  with pytest.raises(error, match=message):
    mask_ratio.measure(restored, tiny_data, **arguments)


def test_attention_names_are_those_of_the_model(restored):
  module = models.build({**restored.config.model, 'variant': 'vanilla'}, len(restored.vocabulary))
  assert mask_ratio.attention_names(restored) == ['temporal']
  vanilla = dataclasses.replace(restored, module=module)
  assert mask_ratio.attention_names(vanilla) == []


def test_the_command(tiny_run, tiny_data, tmp_path, capsys):
  pytest.importorskip('matplotlib')
  arguments = [f'--checkpoint={tiny_run}', f'--data={tiny_data}', '--metrics=CIDEr']
  arguments += [f'--json={tmp_path}/x.json', f'--plot={tmp_path}/x.png', '--ratios=0,1']
  mask_ratio.main([*arguments, '--attention=temporal'])
  result = json.loads((tmp_path / 'x.json').read_text())
  assert [row['ratio'] for row in result['curves']] == [0, 1]
  assert mask_ratio.table(result) in capsys.readouterr().out
  assert (tmp_path / 'x.png').read_bytes().startswith(b'\x89PNG')
  with pytest.raises(SystemExit, match='error: --attention: .* temporal'):
    mask_ratio.main([*arguments, '--attention=spatial'])


@pytest.mark.parametrize(
  ('flag', 'message'),
  [
    ('--json=/dev/null/x', '--json=/dev/null/x: .*/dev/null'),
    ('--plot=/dev/null/x.png', '--plot=/dev/null/x.png: .*/dev/null'),
    ('--plot=x.jpog', "--plot=x.jpog: .*'jpog'.*png"),
  ],
)
def test_output_paths_are_checked_first(flag, message):
  pytest.importorskip('matplotlib')
  with pytest.raises(SystemExit, match=f'^error: {message}'):
    mask_ratio.main(['--checkpoint=/nowhere', '--attention=temporal', flag])
