"""A model that breaks a contract of ``captioner.py`` is refused when it is built or initialised.

That all models keep them is tested wherever parameters are initialised.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn

from vidcap_jax import models
from vidcap_jax.errors import ModelError
from vidcap_jax.models import contract
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs, Noise, init_params
from vidcap_jax.models.layers.attention import Edit, weigh
from vidcap_jax.models.layers.dense import StepDense

B, T, D, H, V = 4, 5, 6, 8, 11


@dataclasses.dataclass(frozen=True)
class Config:
  vocab_size: int = V
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32
  edit: Edit | None = None
  needs: Needs = Needs({'image': ('sequence',)})


class Small(nn.Module):
  """The smallest captioner: the next word from the last one and the mean frame."""

  config: Config

  def setup(self):
    self.words = nn.Embed(V, H)
    self.state = StepDense(H)
    self.output = nn.Dense(V)

  def encode(self, inputs, noise=None, *, train=False):
    return inputs.features['image'].mean(axis=1)

  def start(self, memory, S, L):
    return jnp.zeros((memory.shape[0], S, H))

  def embed(self, words, noise=None):
    return self.words(words)

  def step(self, carry, x, memory, noise=None, *, train=False):
    h = jnp.tanh(x + self.state(carry))
    return h, h, Extras({}, jnp.zeros(h.shape[:2]))

  def logits(self, hidden):
    return self.output(hidden)

  def noise(self, key, inputs, S, L):
    return Noise()


def initialise(module_type, config_type=Config):
  features = np.zeros((B, T, D), np.float32)
  inputs = Inputs({'image': features}, {'image': np.ones((B, T), bool)})
  module = module_type(config_type())
  return jax.eval_shape(lambda key: init_params(module, key, inputs), jax.random.key(0))


def test_a_model_that_keeps_the_contracts():
  assert initialise(Small)['words']['embedding'].shape == (V, H)


class OtherTableName(Small):
  def setup(self):
    self.table = nn.Embed(V, H)
    self.state = StepDense(H)
    self.output = nn.Dense(V)

  def embed(self, words, noise=None):
    return self.table(words)


class SmallTable(Small):
  def setup(self):
    self.words = nn.Embed(V - 1, H)
    self.state = StepDense(H)
    self.output = nn.Dense(V)


class Checkpointed(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h = jax.checkpoint(lambda carry: jnp.tanh(x + self.state(carry)))(carry)
    return h, h, Extras({}, jnp.zeros(h.shape[:2]))


class Rematerialised(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h = nn.remat(lambda module, carry: jnp.tanh(x + module.state(carry)))(self, carry)
    return h, h, Extras({}, jnp.zeros(h.shape[:2]))


class MemoryWithoutVideos(Small):
  def encode(self, inputs, noise=None, *, train=False):
    return {'mean': super().encode(inputs), 'scale': jnp.float32(1)}

  def start(self, memory, S, L):
    return super().start(memory['mean'], S, L)


class CarryWithoutRows(Small):
  def start(self, memory, S, L):
    return super().start(memory, S, L), jnp.int32(0)

  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, extras = super().step(carry[0], x, memory)
    return (h, carry[1] + 1), hidden, extras


class CarryOfAnotherDtype(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, extras = super().step(carry, x, memory)
    return h.astype(jnp.bfloat16), hidden, extras


class ScalarLoss(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, _ = super().step(carry, x, memory)
    return h, hidden, Extras({}, jnp.zeros(()))


class AttentionFirst(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, extras = super().step(carry, x, memory)
    return h, hidden, extras.replace(attention={'temporal': jnp.ones((T, B, 2))})


class NoiseWithoutSteps(Small):
  def noise(self, key, inputs, S, L):
    return Noise(steps={'word': jnp.ones((B, S, L), bool)})


class FewerLogits(Small):
  def logits(self, hidden):
    return super().logits(hidden)[..., 1:]


class NoNoise(Small):
  def noise(self, key, inputs, S, L):
    return None


class ExtrasAsDict(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, extras = super().step(carry, x, memory)
    return h, hidden, {'attention': {}, 'aux': extras.aux}


class TwoValues(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    return super().step(carry, x, memory)[:2]


class NoHiddenState(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, _, extras = super().step(carry, x, memory)
    return h, None, extras


class NoLoss(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, extras = super().step(carry, x, memory)
    return h, hidden, extras.replace(aux=None)


class OnePass(Small):
  def teacher_force(self, x, memory, noise=None, *, train=False):
    return x, Extras({}, jnp.zeros(x.shape[:-1]))


class OnePassRowsFirst(OnePass):
  def teacher_force(self, x, memory, noise=None, *, train=False):
    hidden, extras = super().teacher_force(x, memory)
    return jnp.moveaxis(hidden, 0, 2), extras


class OnePassWithoutExtras(OnePass):
  def teacher_force(self, x, memory, noise=None, *, train=False):
    return x


def test_a_model_with_one_pass_that_keeps_the_contracts():
  initialise(OnePass)


class AttendsWithoutWeigh(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, extras = super().step(carry, x, memory)
    return h, hidden, extras.replace(attention={'temporal': jnp.ones((B, 2, T)) / T})


@pytest.mark.parametrize(
  ('module_type', 'named'),
  [
    (NoNoise, r'noise .*NoneType.*captioner\.Noise'),
    (ExtrasAsDict, r'step .*dict.*captioner\.Extras'),
    (TwoValues, r'step .*2.*hidden.*captioner\.Extras'),
    (NoHiddenState, r'step .*NoneType.*hidden'),
    (NoLoss, r'Extras\.aux.*None'),
    (OnePassRowsFirst, r'teacher_force of 3 .*4, ?2, ?3, ?8.*3, ?4, ?2, ?8'),
    (OnePassWithoutExtras, r'teacher_force .*Extras'),
    (AttendsWithoutWeigh, r"'temporal'.*edit.*weigh"),
    (OtherTableName, r'words/embedding .*no such parameter'),
    (SmallTable, rf'words/embedding .*\({V - 1}, {H}\)'),
    (Checkpointed, r"StepDense .*'state'"),
    (Rematerialised, r"StepDense .*'state'"),
    (MemoryWithoutVideos, rf"memory .*'scale'.*\(\).*B = {B}"),
    (CarryWithoutRows, r'carry .*\[1\].*\(\).*S = 2'),
    (CarryOfAnotherDtype, 'carry.*float32.*bfloat16'),
    (ScalarLoss, r'Extras\.aux'),
    (AttentionFirst, r"attention .*'temporal'.*\(5, 4, 2\)"),
    (NoiseWithoutSteps, r"steps.*'word'.*L = 3"),
    (FewerLogits, rf'logits .*{V - 1}\).*V = {V}'),
  ],
)
def test_a_model_that_breaks_a_contract_is_named(module_type, named):
  with pytest.raises(ModelError, match=f'(?s)model {module_type.__name__}: .*{named}'):
    initialise(module_type)


def test_attention_needs_an_edit_field():
  @dataclasses.dataclass(frozen=True)
  class Bare:
    vocab_size: int = V

  class Attends(Small):
    def step(self, carry, x, memory, noise=None, *, train=False):
      h, hidden, extras = super().step(carry, x, memory)
      return h, hidden, extras.replace(attention={'temporal': jnp.ones((B, 2, T))})

  with pytest.raises(ModelError, match='model Attends: Bare .*edit'):
    initialise(Attends, Bare)


class Attends(Small):
  def step(self, carry, x, memory, noise=None, *, train=False):
    h, hidden, extras = super().step(carry, x, memory)
    weights = weigh('temporal', jnp.zeros((B, 2, T)), jnp.ones((1, 1, T), bool), self.config.edit)
    return h, hidden, extras.replace(attention={'temporal': weights})


@pytest.mark.parametrize(
  ('declared', 'named'),
  [
    ({}, r"attentions .*\[\].*'temporal'"),
    ({'other': AttentionAxes(('words',))}, "attentions .*'other'.*'temporal'"),
    ({'temporal': AttentionAxes(('frames',), 'motion')}, "'temporal'.*'motion'"),
    ({'temporal': AttentionAxes(('picks', 'frames'), 'image')}, r"\(5,\).*'picks'"),
    ({'temporal': AttentionAxes(('layers',), names=('a', 'b'))}, r"\(5,\).*'layers': 2"),
    ({'temporal': AttentionAxes(('words',), frames='other')}, "frames .*'other'"),
    ({'temporal': AttentionAxes(('entries',), streams=('motion',))}, "'temporal'.*'motion'"),
    ({'temporal': AttentionAxes(('entries',), streams=('image',) * 2)}, r"\(5,\).*'entries': 10"),
  ],
)
def test_the_axes_of_weights_are_declared(declared, named):
  @dataclasses.dataclass(frozen=True)
  class Declares(Config):
    @property
    def attentions(self):
      return declared

  with pytest.raises(ModelError, match=f'(?s)model Attends: .*{named}'):
    initialise(Attends, Declares)


@dataclasses.dataclass(frozen=True)
class WithoutDtype:
  vocab_size: int = V
  param_dtype: jnp.dtype = jnp.float32


class WithoutStart(nn.Module):
  config: Config
  step = encode = embed = logits = noise = Small.step


class MisspeltStep(nn.Module):
  config: Config
  encode, start, embed = Small.encode, Small.start, Small.embed
  steps, logits, noise = Small.step, Small.logits, Small.noise


class StartWithoutLength(Small):
  def start(self, memory, S):
    return super().start(memory, S, 1)


class OnePassWithoutMemory(Small):
  def teacher_force(self, x, noise=None, *, train=False):
    return x


@dataclasses.dataclass
class NotFrozen:
  vocab_size: int = V
  dtype: jnp.dtype = jnp.float32
  param_dtype: jnp.dtype = jnp.float32


class NoCaptions(nn.Module):
  config: Config
  touch = noise = Small.noise


@pytest.mark.parametrize(
  ('config_type', 'module_type', 'named'),
  [
    (WithoutDtype, Small, "WithoutDtype .*'dtype'"),
    (Config, WithoutStart, "WithoutStart .*'start'"),
    (Config, MisspeltStep, r"MisspeltStep .*\['step'\].*steps"),
    (Config, StartWithoutLength, r'StartWithoutLength\.start.*start\(memory, S, L\)'),
    (Config, OnePassWithoutMemory, r'OnePassWithoutMemory\.teacher_force.*\(x, memory, noise, '),
    (NotFrozen, Small, 'NotFrozen .*frozen=True'),
    (Config, NoCaptions, "NoCaptions .*'embed_videos', 'embed_captions'"),
  ],
)
def test_classes_are_checked_when_a_model_is_built(config_type, module_type, named, monkeypatch):
  monkeypatch.setattr(models, 'MODELS', {'mine': (config_type, module_type)})
  with pytest.raises(ModelError, match=f"model 'mine': {named}"):
    models.build({'name': 'mine'}, V)


@pytest.mark.parametrize(
  ('needs', 'named'),
  [
    (None, 'needs .*None.*@property'),
    (lambda: None, 'needs .*method.*@property'),
    (['image'], "needs .*'image'.*@property"),
    (Needs(['image']), "needs .*'image'.*@property"),
    (Needs({'image': 'sequence'}), "'image'.*'sequence'"),
    (Needs({'image': ('frames',)}), "'image'.*'frames'"),
    (Needs({'image': ('sequence',)}, {'motion': 1}), "blocks.*'motion'"),
  ],
)
def test_needs_name_known_kinds_and_streams(needs, named):
  with pytest.raises(ModelError, match=f"model 'mine': .*{named}"):
    contract.check_needs('mine', Config(needs=needs))
