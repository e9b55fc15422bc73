"""The examples of docs/extending.md, used as the page says and as the page shows them."""

import json
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from data_prep.build import main as build
from examples.extending import make_data
from examples.extending.annotation_form import read as read_notes
from examples.extending.config import get_config
from examples.extending.feature_format import CsvReader
from tests import tiny
from tests.cases import Case
from tests.made_up import Setup
from tests.vidcap_jax.models import test_captioner
from vidcap_jax import models
from vidcap_jax.annotations.model import Annotations
from vidcap_jax.checkpoints import restore
from vidcap_jax.data.records import open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.inference import predict
from vidcap_jax.models.captioner import Inputs, bind, init_params
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.cross_entropy import caption_loss
from vidcap_jax.studies import mask_ratio

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / 'docs' / 'extending.md'
FILES = ('model', 'attention_model', 'objective', 'feature_format', 'annotation_form', 'config')


@pytest.fixture(scope='module')
def sources(tmp_path_factory) -> pathlib.Path:
  """Twelve videos in the forms of the examples: captions, splits and features."""
  folder = tmp_path_factory.mktemp('own')
  make_data.write(folder)
  return folder


@pytest.fixture(scope='module')
def data(sources) -> pathlib.Path:
  """The data set that the page's command builds."""
  arguments = [
    '--format=examples.extending.annotation_form:read',
    f'--annotations={sources / "captions.notes"}',
    f'--splits={sources / "splits.json"}',
    f'--features=image={sources / "features.csv"}',
    '--readers=image=examples.extending.feature_format:CsvReader',
    '--min_count=1',
    f'--output={sources / "data"}',
  ]
  assert build(arguments) == 0
  return sources / 'data'


@pytest.fixture(scope='module')
def workdir(data, tmp_path_factory) -> pathlib.Path:
  """A finished run of the page's config, with smaller sizes."""
  c = get_config()
  c.data.dir = str(data)
  c.data.captions_per_video = 2
  c.model.hidden = c.model.embed = 16
  c.model.dropout = 0.1
  c.train.batch_size = 8
  c.train.epochs = 60.0
  c.optimizer.learning_rate = 0.02
  c.decode.method = 'greedy'
  c.eval.batch_size = 8
  c.eval.every_epochs = 30.0
  c.eval.metrics = ('CIDEr',)
  c.eval.splits = ()
  c.log.tensorboard = False
  with tiny.without_java():
    return tiny.run(c, tmp_path_factory.mktemp('runs') / 'own')


def test_the_page_shows_the_files():
  blocks = re.findall(r'^```python\n(.*?)^```', PAGE.read_text(), re.MULTILINE | re.DOTALL)
  for name in FILES:
    text = (ROOT / 'examples' / 'extending' / f'{name}.py').read_text()
    assert text in blocks, f'docs/extending.md shows another examples/extending/{name}.py'


def test_data_set_from_own_annotations_and_features(data):
  manifest = read_manifest(data)
  assert {name: split.videos for name, split in manifest.splits.items()} == {
    'train': 6,
    'val': 3,
    'test': 3,
  }
  video = open_split(data, 'train')[0]
  assert video.captions == ('a red ball', 'the ball is red')
  assert video.features['image'].shape == (2, 4)


def test_training_with_own_model_and_objective(workdir):
  records = [json.loads(line) for line in (workdir / 'metrics.jsonl').read_text().splitlines()]
  scores = [record['CIDEr'] for record in records if 'CIDEr' in record]
  assert scores[-1] > 1


def test_checkpoint_captions_own_features(workdir, sources, capsys):
  restored = restore.restore(restore.find_checkpoint(str(workdir)), make_mesh())
  assert predict.predict(restored, f'image={sources / "features.csv"}') == 0
  made = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  captions = {line['video_id']: line['caption'] for line in made}
  assert len(captions) == 12
  assert 'red' in captions['clip9']


def test_checkpoint_captions_the_same_features_in_a_built_in_format(workdir, tmp_path, capsys):
  np.save(tmp_path / 'clip.npy', np.full((2, 4), [2, 0, 0, 0], np.float32))
  restored = restore.restore(restore.find_checkpoint(str(workdir)), make_mesh())
  assert predict.predict(restored, f'image={tmp_path}') == 0
  assert 'red' in json.loads(capsys.readouterr().out)['caption']


@pytest.mark.parametrize('name', ['model:MeanGRU', 'attention_model:AttentionGRU'])
def test_models_keep_the_promises_of_captioners(name, strict_dtypes):
  """Those of ``test_captioner.py`` that compile fast; the models can be held to all of them."""
  settings = {'name': f'examples.extending.{name}', 'hidden': 8, 'embed': 6, 'dropout': 0.5}
  streams = {'image': (5, 4)} | ({'audio': (3,)} if 'Mean' in name else {})
  case = Case('own', {**settings, 'streams': tuple(streams)}, streams)
  setup = Setup(case)
  test_captioner.test_padding_may_hold_anything(setup)
  test_captioner.test_a_video_does_not_depend_on_the_rest_of_its_batch(setup)
  test_captioner.test_missing_streams(setup)
  test_captioner.test_teacher_forcing_is_one_step_after_another(setup)


def test_studies_change_the_attention_of_a_model():
  name = 'examples.extending.attention_model:AttentionGRU'
  module = models.build({'name': name, 'hidden': 4, 'embed': 4, 'attention': 4}, 11)
  inputs = Inputs({'image': jnp.ones((1, 2, 4))}, {'image': jnp.ones((1, 2), bool)})
  params = init_params(module, jax.random.key(0), inputs)

  def attended(module):
    captioner = bind(module, params)
    memory = captioner.encode(inputs, None)
    x = captioner.embed(jnp.zeros((1, 1), jnp.int32), None)
    extras = captioner.step(captioner.start(memory, 1, 3), x, memory, None)[2]
    return extras.attention['temporal'][0, 0]

  np.testing.assert_allclose(attended(module), [0.5, 0.5])
  edited = mask_ratio.with_edit(module, lambda name, weights, mask: weights * 0)
  np.testing.assert_array_equal(attended(edited), [0, 0])


def test_focal_loss_without_gamma_is_cross_entropy():
  config = get_config()
  config.model.update({'hidden': 4, 'embed': 4, 'dropout': 0.0})
  module = models.build(config.model, 11)
  inputs = Inputs({'image': jnp.ones((1, 2, 4))}, {'image': jnp.ones((1, 2), bool)})
  params = init_params(module, jax.random.key(0), inputs)
  batch = {'captions': jnp.array([[[4, 5, 2, 0]]])}
  loss_of = {}
  for gamma in (0.0, 2.0):
    config.objective.gamma = gamma
    loss = jax.jit(make_objective(config, module, None).loss)
    loss_of[gamma] = float(loss(params, batch, inputs, jax.random.key(1), 0.0, {})[0])

  @jax.jit
  def cross_entropy(params):
    total, count = caption_loss(bind(module, params), inputs, batch['captions'], jax.random.key(1))
    return total / count

  assert loss_of[2.0] < loss_of[0.0]
  np.testing.assert_allclose(loss_of[0.0], cross_entropy(params), rtol=1e-6)
  config.objective.gamma = -1.0
  with pytest.raises(ConfigError, match=r'objective\.gamma'):
    make_objective(config, module, None)


def test_annotation_form_names_the_bad_line(tmp_path):
  path = tmp_path / 'captions.notes'
  path.write_text('\na red ball\n# clip0\na ball\n')
  with pytest.raises(DataError, match='line 2.*a red ball'):
    read_notes([path], Annotations())


def test_feature_format_names_the_video_and_the_file(tmp_path):
  path = tmp_path / 'features.csv'
  path.write_text('clip0,1,2\nclip0,3,4\nclip1,1,x\n')
  reader = CsvReader('image', path, None)
  np.testing.assert_array_equal(reader.read('clip0'), [[1, 2], [3, 4]])
  with pytest.raises(DataError, match=r'features\.csv.*clip1'):
    reader.read('clip1')
  with pytest.raises(DataError, match=r'image.*missing\.csv'):
    CsvReader('image', tmp_path / 'missing.csv', None)
