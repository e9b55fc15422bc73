"""The undocumented names of libraries that the project uses.

Each has its own test, so that a release that removes one fails here, by name, and not in a user's
command. docs/install.md lists them.
"""

import dataclasses
import importlib
import re

import jax
import jax.numpy as jnp
import pytest
from flax import linen as nn


@pytest.mark.parametrize(
  ('module', 'name'),
  [
    ('array_record.python.array_record_module', 'ArrayRecordReader'),
    ('array_record.python.array_record_module', 'ArrayRecordWriter'),
    ('flax.core.tracers', 'current_trace'),
    ('jax.core', 'max_dim'),  # documented only with shape polymorphism
    ('jax.extend.core', 'ClosedJaxpr'),
    ('jax.extend.core', 'jaxpr_as_fun'),
    ('orbax.checkpoint.checkpoint_managers', 'AnyPreservationPolicy'),
    ('orbax.checkpoint.checkpoint_managers', 'BestN'),
    ('orbax.checkpoint.checkpoint_managers', 'LatestN'),
    ('pycocoevalcap.cider.cider_scorer', 'precook'),
    ('tensorboardX.event_file_writer', 'EventsWriter'),
    ('tensorboardX.proto.event_pb2', 'Event'),
    ('tensorboardX.summary', 'image'),
    ('tensorboardX.summary', 'scalar'),
    ('tensorboardX.summary', 'text'),
    ('tensorflow_datasets.proto', 'tf_example_pb2'),
  ],
)
def test_name_exists(module, name):
  assert hasattr(importlib.import_module(module), name)


def test_the_client_of_the_coordination_service():
  """``vidcap_jax.distributed.jobs`` and ``watchdog`` communicate through it."""
  from jax._src import distributed

  assert distributed.global_state.client is None  # not initialized in this process
  client = importlib.import_module('jaxlib._jax').DistributedRuntimeClient
  for method in ('wait_at_barrier', 'key_value_set', 'key_value_dir_get'):
    assert hasattr(client, method), method


def test_parameters_of_a_scan():
  """``vidcap_jax.training.cost`` multiplies the cost of a loop's body by its length."""
  body = lambda carry, x: (carry + x, x)  # noqa: E731
  loop = lambda xs: jax.lax.scan(body, 0.0, xs, unroll=2)  # noqa: E731
  (equation,) = jax.make_jaxpr(loop)(jnp.zeros(6)).jaxpr.eqns
  assert equation.primitive.name == 'scan'
  assert (equation.params['length'], equation.params['unroll']) == (6, 2)
  assert [v.aval.shape for v in equation.params['jaxpr'].jaxpr.invars] == [(), ()]


def test_intercepted_methods_know_their_module():
  """``vidcap_jax.decoding.scan`` finds layers by path and method name."""
  calls = []

  def intercept(call, args, kwargs, context):
    calls.append((context.method_name, context.module.path))
    return call(*args, **kwargs)

  with nn.intercept_methods(intercept):
    nn.Sequential([nn.Dense(2)]).init(jax.random.key(0), jnp.zeros((1, 3)))
  assert ('__call__', ('layers_0',)) in calls


def test_transformations_change_the_trace():
  """``vidcap_jax.models.contract`` finds ``StepDense`` under ``jax.checkpoint`` by it."""
  from flax.core import tracers

  traces = []

  def note(x):
    traces.append(tracers.current_trace())
    return x

  def both(x):
    return jax.checkpoint(note)(note(x))

  jax.eval_shape(both, 1.0)
  assert traces[0] != traces[1]


def test_what_a_config_says_of_wrong_keys_and_types():
  """``vidcap_jax.config_files`` finds the key and the types in these messages."""
  from ml_collections import ConfigDict

  from vidcap_jax import config_files

  config = ConfigDict({'a': 1}).lock()
  with pytest.raises(
    (AttributeError, KeyError), match='Key "b" does not exist and cannot be added'
  ):
    config.b = 1
  with pytest.raises(TypeError) as error:
    config.a = 'x'
  assert re.search(config_files._OTHER_TYPE, str(error.value), re.DOTALL)[1] == 'a'


def test_dataclasses_know_whether_they_are_frozen():
  """``vidcap_jax.models.contract`` refuses configs that are not."""
  frozen = dataclasses.make_dataclass('Frozen', ['a'], frozen=True)
  assert frozen.__dataclass_params__.frozen
  assert not dataclasses.make_dataclass('Mutable', ['a']).__dataclass_params__.frozen


@pytest.mark.parametrize(
  ('package', 'jar'),
  [('tokenizer', 'stanford-corenlp-3.4.1.jar'), ('meteor', 'meteor-1.5.jar')],
)
def test_pycocoevalcap_contains_its_jars(package, jar):
  from vidcap_jax.evaluation import java

  assert java.packaged(package, jar)


def test_side_data_of_frames_is_found_by_name():
  """Iterating over it gives the items before PyAV 19 and their names from then on."""
  from vidcap_jax.features import video_decoder

  av = video_decoder.import_av()
  assert av.VideoFrame(16, 16, 'yuv420p').side_data.get('DISPLAYMATRIX') is None
  assert 'DISPLAYMATRIX' in {kind.name for kind in av.sidedata.sidedata.Type}


def test_videos_open_with_the_options_of_any_pyav(tmp_path):
  """``metadata_errors`` is an argument of ``av.open`` only before PyAV 19."""
  from tests import video_files
  from vidcap_jax.features import video_decoder

  av = video_decoder.import_av()
  options = video_decoder._tag_options(av)
  assert bool(options) == (int(av.__version__.split('.')[0]) < 19)
  path = video_files.write_video(tmp_path / 'a.mp4', video_files.ramp(3))
  with av.open(str(path), **options) as container:
    assert container.streams.video
