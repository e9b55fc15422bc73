"""The interface of every captioner: a captioner is a step function, and code elsewhere unrolls it.

A model is a Flax linen module with the first six methods below. ``bind`` ties a module to its
parameters and returns a ``Captioner``: plain functions, which are all that decoding, objectives and
evaluation know of a model.

    encode(inputs, noise, train)                  -> memory    once per video, leaves (B, …)
    start(memory, S, L)                           -> carry     every leaf (B, S, …)
    embed(words, noise)                           -> x         (…,) words to (…, E)
    step(carry, x, memory, noise_t, train)        -> carry, hidden (B, S, H), Extras
    logits(hidden)                                -> (…, V)
    noise(key, inputs, S, L)                      -> Noise
    teacher_force(x, memory, noise, train)        -> hidden (L, B, S, H), Extras     optional

S is the row axis over one video's memory: captions, beams or samples. The memory is shared by the
rows of a video and never repeated. Everything random (dropout, Gumbel noise, hard draws) is made
by ``noise`` before the unrolling, so that a step is a pure function that can be replayed.

A model that can read all words of given captions at once has ``teacher_force`` beside ``step``: for
x (L, B, S, E) and the noise of all words it returns what L steps from ``start`` return, stacked.
Teacher forcing uses it where it exists; everything else is unrolled by ``step``.

What other code relies on, beyond these signatures (``contract.py`` checks most of it when a model
is built and when its parameters are initialised):

- Config: a frozen dataclass, the module's only field ``config``. ``vocab_size``, ``dtype`` and
  ``param_dtype`` are set by ``models.build``; all other fields are keys of the user's ``model``
  section. The property ``needs`` returns a ``Needs``. A field ``dropout`` is a rate: training
  checks its range. A field ``edit`` is passed to ``layers.attention.weigh``: studies replace it to
  change attention weights. A model with weights in ``Extras.attention`` must have it, and
  a property ``attentions``: name -> ``attention_axes.AttentionAxes``. Word vectors from a file must
  have the size ``embed``. A model with settings that change with ``Inputs.progress`` or ``train``
  has a method ``settings_at(progress, train=…)``: name -> value, for ``studies.schedules``.
- The table of word embeddings is an ``nn.Embed`` named ``words``, at the top of the module, so that
  its parameter is ``words/embedding`` (V, E). Word vectors are written into it, and
  ``decoding/scan.py`` takes its gradient after the last word.
- Parameters that have an axis over the vocabulary have one, of size V, word i at index i: it is
  found by its size, to shard it and to start from a checkpoint with another vocabulary.
- ``StepDense`` is for layers that ``embed`` and ``step`` call directly, not inside of
  ``jax.checkpoint`` or another transformation: ``decoding/scan.py`` collects what such a layer
  reads and adds to what it returns.
- ``step`` returns a carry of the same structure, shapes and dtypes as it was given.
- The names in ``Extras.attention`` are those given to ``weigh``. One of several streams is named
  'STREAM/NAME'. Choosing key frames (a stage with task 'key_frames') reads the name 'keyframe'.
- A model whose video encoder can be held fixed (``objective.encoder``) has a class attribute
  ``encoder_params``, the names of the encoder's parameters at the top of the module.
- A model whose layers can be split over devices (``mesh.params='tensor'``) has a class attribute
  ``sharded_axes``: the last two names of a parameter, 'query/kernel' -> the axis that is split.
- A model without ``step`` makes no captions. It defines ``touch``, ``embed_videos``,
  ``embed_captions`` and ``noise``, see ``embedding.py``.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
from flax import linen as nn
from flax import struct

from vidcap_jax.errors import ConfigError
from vidcap_jax.models import contract

Array = jax.Array


@struct.dataclass
class Inputs:
  """A batch of videos as a model reads it.

  Attributes:
    features: per stream, (B, T, D) sequence, (B, D) vector, (B, T, N, D) grid or regions.
    masks: per stream, the same without D, True where valid. Padding may hold any values.
    category: (B,) int32, -1 if unknown, or None.
    key_frame: (B,) int32 frame indices for models that can be given key frames, -1 if a video's is
      unknown; or None.
    progress: () the share of annealing that is done, in [0, 1] (``train.annealed``), in a training
      step: in its samples and their greedy baseline too. None in validation, evaluation and
      prediction, where what is annealed has its end value.
  """

  features: Mapping[str, Array]
  masks: Mapping[str, Array]
  category: Array | None = None
  key_frame: Array | None = None
  progress: Array | None = None

  @property
  def batch_size(self) -> int:
    return next(iter(self.masks.values())).shape[0]


@struct.dataclass
class Noise:
  """Random numbers made before unrolling: ``encoder`` has leaves (B, …), ``steps`` (L, …)."""

  encoder: Any = None
  steps: Any = None


@struct.dataclass
class Extras:
  """What a step returns besides its carry and hidden state.

  Attributes:
    attention: name -> weights (B, S, N), or (B, S, K, N) for K picks, for studies and tests.
    aux: (B, S), the step's own loss terms, which the objective sums over words.
    draw_log_prob: (B, S), the log-probability of the step's random choices (hard attention), for
      objectives that differentiate it; None if it makes none.
  """

  attention: Mapping[str, Array]
  aux: Array
  draw_log_prob: Array | None = None


@dataclasses.dataclass(frozen=True)
class Needs:
  """What a model needs of a data set, declared by its config.

  Attributes:
    streams: stream name -> the kinds it may have.
    blocks: for streams that share a clock, stream name -> frames per unit of the clock. If a data
      set has regions of every third frame, {'regions': 1, 'image': 3}. These streams are padded and
      subsampled in whole units, so that they stay aligned; other streams are independent.
    categories: number of video categories that the model distinguishes; 0 if it reads none.
    key_frames: whether the model can be given key frames (``Inputs.key_frame``).
  """

  streams: Mapping[str, tuple[str, ...]]
  blocks: Mapping[str, int] = dataclasses.field(default_factory=dict)
  categories: int = 0
  key_frames: bool = False


@dataclasses.dataclass(frozen=True)
class Captioner:
  """A model bound to its parameters: the interface of this module's docstring as functions.

  ``rebind`` binds the same module to other parameters than ``params``. Both are None for captioners
  that are not made of one module, such as ensembles. ``teacher_force`` is None where the model has
  no such method.
  """

  encode: Callable[..., Any]
  start: Callable[..., Any]
  embed: Callable[..., Array]
  step: Callable[..., tuple[Any, Array, Extras]]
  logits: Callable[[Array], Array]
  noise: Callable[..., Noise]
  params: Any = None
  rebind: Callable[[Any], 'Captioner'] | None = None
  teacher_force: Callable[..., tuple[Array, Extras]] | None = None


def is_captioner(module: nn.Module | type[nn.Module]) -> bool:
  """Whether a model makes captions; others only compare them with videos."""
  return hasattr(module, 'step')


def encoder_params(module: nn.Module) -> tuple[str, ...]:
  """The parameters of a model's video encoder; ConfigError if it does not name them."""
  names = getattr(module, 'encoder_params', None)
  if names is None:
    raise ConfigError(
      f"objective.encoder='fixed': model {type(module).__name__} does not name the parameters of "
      "an encoder (encoder_params); use objective.encoder='trained'"
    )
  return tuple(names)


def sharded_axes(module: nn.Module) -> Mapping[str, int]:
  """The axes that ``mesh.params='tensor'`` shards, {} for a model that does not declare them."""
  return getattr(module, 'sharded_axes', {})


def bind(module: nn.Module, params: Mapping) -> Captioner:
  """Binds a linen module to its parameters.

  Each returned function is a complete ``module.apply``, so they may be called under any JAX
  transformation (scan, while_loop, vmap, grad with respect to ``params``).
  """
  variables = {'params': params}

  def method(name: str) -> Callable:
    return lambda *args, **kwargs: module.apply(variables, *args, **kwargs, method=name)

  optional = [name for name in contract.OPTIONAL_METHODS if hasattr(module, name)]
  methods = {name: method(name) for name in (*contract.CAPTIONER_METHODS, *optional)}
  return Captioner(**methods, params=params, rebind=functools.partial(bind, module))


def init_params(module: nn.Module, key: Array, inputs: Inputs) -> Mapping:
  """Initial parameters, by calling each method once on (abstract or real) inputs.

  A module that makes no captions has a method ``touch(inputs)`` for this.

  Raises:
    ModelError: the module breaks one of the contracts above; names the module and what to change.
  """
  if is_captioner(module):
    traced, edited = contract.record_edits(module)
    run_once = functools.partial(contract.run_once, inputs=inputs, edited=edited)
    params = nn.init(run_once, traced)(key)['params']
  else:
    params = module.init(key, inputs, method='touch')['params']
  contract.check_table(module, params)
  return params
