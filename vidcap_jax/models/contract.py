"""Checks that a model keeps the contracts of ``captioner.py``, by tracing it once.

Training, decoding and the studies rely on names and shapes that Python doesn't enforce. They are
checked where a model is built and where its parameters are initialised. Both only look at types
and shapes, so that nothing is computed and no step becomes slower.

Everything here raises ValueError, with the model's name and what to change: the mistake is in the
model's code and not in a user's settings.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.core import tracers

from vidcap_jax.data.schema import KINDS
from vidcap_jax.models.layers.dense import StepDense

TABLE = 'words'
CAPTIONER_METHODS = ('encode', 'start', 'embed', 'step', 'logits', 'noise')
OTHER_METHODS = ('touch', 'embed_videos', 'embed_captions', 'noise')
CONFIG_FIELDS = ('vocab_size', 'dtype', 'param_dtype')


def check_classes(name: str, config_type: type, module_type: type[nn.Module]) -> None:
  """Checks the methods of a model and the fields of its config.

  Args:
    name: of the model, a key of ``MODELS``.
    config_type: its config dataclass.
    module_type: its module.
  """
  fields = {field.name for field in dataclasses.fields(config_type)}
  if missing := [field for field in CONFIG_FIELDS if field not in fields]:
    raise ValueError(
      f'model {name!r}: {config_type.__name__} lacks the fields {missing}; models.build fills them'
    )
  wanted = CAPTIONER_METHODS if hasattr(module_type, 'step') else OTHER_METHODS
  if missing := [method for method in wanted if not hasattr(module_type, method)]:
    raise ValueError(
      f'model {name!r}: {module_type.__name__} lacks the methods {missing}; captioners define '
      f'{CAPTIONER_METHODS}, other models {OTHER_METHODS}'
    )


def check_needs(name: str, config: Any) -> None:
  """Checks that ``config.needs`` names kinds of streams that exist and blocks of its own streams.

  Args:
    name: of the model.
    config: an instance of its config dataclass.
  """
  needs = getattr(config, 'needs', None)
  if needs is None:
    raise ValueError(
      f'model {name!r}: {type(config).__name__} has no property needs; return a captioner.Needs '
      'with the streams that the model reads'
    )
  for stream, kinds in needs.streams.items():
    if isinstance(kinds, str) or not set(kinds) <= set(KINDS):
      raise ValueError(
        f'model {name!r}: needs.streams[{stream!r}] is {kinds!r}; use a tuple of {tuple(KINDS)}'
      )
  if unknown := sorted(set(needs.blocks) - set(needs.streams)):
    raise ValueError(f'model {name!r}: needs.blocks names {unknown}, which needs.streams lacks')


def check_table(module: nn.Module, params: Mapping) -> None:
  """Checks that ``params`` hold a word embedding table (V, E) at ``words/embedding``."""
  V = module.config.vocab_size
  table = params.get(TABLE, {})
  table = table.get('embedding') if isinstance(table, Mapping) else None
  if table is None or table.ndim != 2 or table.shape[0] != V:
    found = 'no such parameter' if table is None else f'shape {table.shape}'
    _fail(
      module,
      f'{TABLE}/embedding must be the table of word embeddings ({V}, E), found: {found}. Define it '
      f'in setup as self.{TABLE} = nn.Embed(vocab_size, embed): word vectors and the gradients of '
      'decoding/scan.py find it by that name',
    )


def run_once(module: nn.Module, inputs: Any) -> None:
  """Calls each method of a captioner once, as ``flax.linen.init`` needs, and checks the shapes.

  Args:
    module: a bound captioner.
    inputs: ``captioner.Inputs`` of B videos.
  """
  B, S, L = inputs.batch_size, 2, 3
  noise = module.noise(jax.random.key(0), inputs, S, L)
  _check_leading(module, 'noise(…).encoder', noise.encoder, B=B)
  _check_leading(module, 'noise(…).steps', noise.steps, L=L)
  memory = module.encode(inputs, None, train=False)
  _check_leading(module, 'the memory of encode', memory, B=B)
  carry = module.start(memory, S, L)
  _check_leading(module, 'the carry of start', carry, B=B, S=S)
  with nn.intercept_methods(_step_dense_check(module)):
    x = module.embed(jnp.zeros((B, S), jnp.int32), None)
    after, hidden, extras = module.step(carry, x, memory, None, train=False)
    logits = module.logits(hidden)
  if _types(after) != _types(carry):
    _fail(module, f'step changes the types of the carry: {_types(carry)} to {_types(after)}')
  _check_leading(module, 'the hidden state of step', hidden, B=B, S=S)
  _check_extras(module, extras, B, S)
  if logits.shape != (B, S, module.config.vocab_size):
    _fail(module, f'logits of hidden {hidden.shape} are {logits.shape}; they must be (…, V)')


def _check_extras(module: nn.Module, extras: Any, B: int, S: int) -> None:
  """Checks the ``captioner.Extras`` of a step."""
  _check_leading(module, 'the attention weights of step', extras.attention, B=B, S=S)
  for name in ('aux', 'draw_log_prob'):
    value = getattr(extras, name)
    if (value is not None or name == 'aux') and jnp.shape(value) != (B, S):
      _fail(module, f'Extras.{name} of step has shape {jnp.shape(value)}; it must be (B, S)')
  if extras.attention and not hasattr(module.config, 'edit'):
    _fail(
      module,
      f'{type(module.config).__name__} has no field edit, which studies set to change attention '
      'weights; add `edit: Edit | None = None` and pass it to attention.weigh',
    )


def _step_dense_check(module: nn.Module) -> Callable:
  """A method interceptor that checks that ``StepDense`` is called in the JAX trace of this call."""
  outer = tracers.current_trace()

  def check(call, args, kwargs, context):
    if isinstance(context.module, StepDense) and tracers.current_trace() != outer:
      _fail(
        module,
        f'the StepDense layer {"/".join(context.module.path)!r} is called inside of jax.checkpoint '
        'or another transformation in embed, step or logits. decoding/scan.py collects the inputs '
        'of these layers from outside. Call the layer before the transformation and pass in what '
        'it returns, as AdditiveAttention does, or use nn.Dense',
      )
    return call(*args, **kwargs)

  return check


def _types(tree: Any) -> Any:
  return jax.tree.map(lambda x: (x.shape, str(x.dtype)), tree)


def _check_leading(module: nn.Module, what: str, tree: Any, **sizes: int) -> None:
  """Checks that the first axes of every array of a tree have ``sizes``, given by axis name."""
  for path, leaf in jax.tree.leaves_with_path(tree):
    if (shape := jnp.shape(leaf))[: len(sizes)] != tuple(sizes.values()):
      axes = ', '.join(f'{name} = {size}' for name, size in sizes.items())
      _fail(
        module, f'{what}{jax.tree_util.keystr(path)} has shape {shape}; it must begin with {axes}'
      )


def _fail(module: nn.Module, message: str) -> None:
  raise ValueError(f'model {type(module).__name__}: {message}')
