"""The Transformer's config for CLIP features, from frames to captions with random weights."""

import json

import pytest
from ml_collections import ConfigDict

from configs import clip_transformer, msrvtt1000, msrvtt_stats, transformer_sizes
from data_prep.synthetic import clips
from tests import tiny
from vidcap_jax import models
from vidcap_jax.features import weights
from vidcap_jax.training import experiment


def stage_of(variant: str) -> ConfigDict:
  config = clip_transformer.get_config(variant)
  return experiment.stage_config(config, config.order[-1])


@pytest.mark.parametrize(('size', 'width', 'layers'), [('small', 256, 2), ('base', 512, 6)])
def test_sizes(size, width, layers):
  config = models.build(stage_of(f'size={size}').model, 9).config
  assert (config.hidden, config.embed, config.feed_forward) == (width, width, 4 * width)
  assert (config.encoder_layers, config.decoder_layers, config.heads) == (
    layers,
    layers,
    width // 64,
  )


def test_features_and_recipe():
  needs = {v: models.build(stage_of(f'features={v}').model, 9).config.needs.streams
           for v in clip_transformer.VARIANTS['features']}  # fmt: skip
  assert [tuple(streams) for streams in needs.values()] == [
    ('image',),
    ('cells',),
    ('image', 'cells'),
  ]
  stage = stage_of('recipe=rl')
  assert (stage.objective.baseline, stage.objective.samples) == ('others', 5)
  assert stage.train.init_from == 'stage:xe'


def test_what_transformers_are_trained_with():
  for config in (clip_transformer.get_config(), msrvtt1000.get_config('model=transformer')):
    schedule = config.optimizer.schedule
    assert (config.optimizer.learning_rate, config.optimizer.b2) == (5e-4, 0.98)
    assert (schedule.name, schedule.warmup_epochs) == ('cosine', 1.0)
  model = msrvtt1000.get_config('model=transformer').model
  assert {**model, **transformer_sizes.SIZES['small']} == dict(model)


def test_the_vocabulary_is_msr_vtts():
  """As in configs/msrvtt_stats.py, whose command counts the same words."""
  assert clip_transformer.VOCABULARY == msrvtt_stats.VOCABULARY
  flags = '--min_count=3 --max_words=0'
  assert all(flags in module.__doc__ for module in (clip_transformer, msrvtt_stats))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_frames_to_captions_with_a_clip_of_random_weights(tmp_path, monkeypatch):
  """Clips are rendered, read by CLIP through transformers, learned, and captioned from files."""
  reason = 'the extras "torch" and "video" are not installed'
  pytest.importorskip('av', reason=reason)
  torch = pytest.importorskip('torch', reason=reason)
  transformers = pytest.importorskip('transformers', reason=reason)
  torch.manual_seed(0)
  layers = {'num_hidden_layers': 1, 'num_attention_heads': 2, 'hidden_size': 16}
  layers |= {'intermediate_size': 24, 'projection_dim': 12, 'image_size': 32, 'patch_size': 16}
  folder = tmp_path / 'weights' / 'transformers' / 'someone' / 'clip'
  vision = transformers.CLIPVisionConfig(**layers)
  transformers.CLIPVisionModelWithProjection(vision).save_pretrained(folder)
  inputs = {'image_mean': [0.5] * 3, 'image_std': [0.3] * 3, 'size': {'shortest_edge': 32}}
  (folder / 'preprocessor_config.json').write_text(json.dumps(inputs))
  monkeypatch.setenv(weights.VARIABLE, str(tmp_path / 'weights'))

  config = clip_transformer.get_config('features=both,runlocal')
  with config.unlocked():
    name = 'transformers/someone/clip'
    config.data.recipe.streams = {'image': name, 'cells': f'{name}/grid'}
    config.data.recipe.videos = 12
    config.data.recipe.show = 1
    config.train.epochs = 2.0
    config.eval.every_epochs = 1.0
    config.decode.beam = 2
  config.log.tensorboard = False
  with tiny.unscored_by_java():
    workdir = tiny.run(config, tmp_path / 'work', clips)
  (manifest,) = (workdir / 'data').rglob('manifest.json')
  streams = json.loads(manifest.read_text())['streams']
  shapes = {stream['name']: stream['shape'] for stream in streams}
  assert shapes == {'image': [None, 12], 'cells': [None, 2, 2, 16]}
  captions = json.loads((workdir / 'eval' / 'test' / 'captions.json').read_text())
  assert captions
  assert all(caption['caption'] for caption in captions)
