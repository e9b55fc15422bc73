"""Checks that a model keeps the contracts of ``captioner.py``, by tracing it once.

Training, decoding and the studies rely on names and shapes that Python doesn't enforce. They are
checked where a model is built and where its parameters are initialised. Both only look at types
and shapes, so that nothing is computed and no step becomes slower.

Everything here raises ``ModelError``, a ValueError, with the model's name and what to change.
Commands print it without a traceback.
"""

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from flax.core import tracers

from vidcap_jax.data.schema import KINDS
from vidcap_jax.errors import ModelError
from vidcap_jax.models.attention_axes import entries_of, places_of
from vidcap_jax.models.layers.dense import StepDense

TABLE = 'words'
CAPTIONER_METHODS = ('encode', 'start', 'embed', 'step', 'logits', 'noise')
OPTIONAL_METHODS = ('teacher_force',)
OTHER_METHODS = ('touch', 'embed_videos', 'embed_captions', 'noise')
CONFIG_FIELDS = ('vocab_size', 'dtype', 'param_dtype')
_ARGUMENTS = {  # what a captioner's methods are called with; only train is passed by name
  'encode': ('inputs', 'noise', 'train'),
  'start': ('memory', 'S', 'L'),
  'embed': ('words', 'noise'),
  'step': ('carry', 'x', 'memory', 'noise', 'train'),
  'logits': ('hidden',),
  'noise': ('key', 'inputs', 'S', 'L'),
  'teacher_force': ('x', 'memory', 'noise', 'train'),
}
_STEP_RETURNS = 'a tuple (carry, hidden (B, S, H), captioner.Extras(attention, aux (B, S)))'


def check_classes(name: str, config_type: type, module_type: type[nn.Module]) -> None:
  """Checks the methods of a model and the fields of its config.

  Args:
    name: of the model, a key of ``MODELS``.
    config_type: its config dataclass.
    module_type: its module.
  """
  if not config_type.__dataclass_params__.frozen:  # type: ignore[attr-defined]
    raise ModelError(
      f'model {name!r}: {config_type.__name__} is not frozen; decorate it with '
      '@dataclasses.dataclass(frozen=True): JAX compares configs by value'
    )
  fields = {field.name for field in dataclasses.fields(config_type)}
  if missing := [field for field in CONFIG_FIELDS if field not in fields]:
    raise ModelError(
      f'model {name!r}: {config_type.__name__} lacks the fields {missing}; models.build fills them'
    )
  defined = {method for method in dir(module_type) if not hasattr(nn.Module, method)}
  is_captioner = _makes_captions(defined)
  required = CAPTIONER_METHODS if is_captioner else OTHER_METHODS
  if missing := [method for method in required if method not in defined]:
    kind = 'a captioner' if is_captioner else 'a model without step, which makes no captions,'
    raise ModelError(
      f'model {name!r}: {module_type.__name__} lacks the methods {missing}'
      f'{_near_names(missing, defined - {*required})}; {kind} defines {required}'
    )
  if is_captioner:
    for method in (*CAPTIONER_METHODS, *(m for m in OPTIONAL_METHODS if m in defined)):
      _check_signature(name, module_type, method)


def _makes_captions(defined: Collection[str]) -> bool:
  """Whether the methods of a model are those of a captioner, of which one may be forgotten."""
  if 'step' in defined:
    return True
  counts = [
    sum(method in defined for method in methods) for methods in (CAPTIONER_METHODS, OTHER_METHODS)
  ]
  return counts[0] > counts[1]


def _near_names(missing: Collection[str], defined: Collection[str]) -> str:
  """The defined names that may be misspelt ones of those missing, for a message."""
  near = [name for method in missing for name in difflib.get_close_matches(method, defined, n=1)]
  return f' (is one of them misspelt as {", ".join(near)}?)' if near else ''


def _check_signature(name: str, module_type: type[nn.Module], method: str) -> None:
  """Checks that a method takes the arguments that it is called with."""
  arguments = _ARGUMENTS[method]
  positional = [argument for argument in arguments if argument != 'train']
  by_name = {'train': False} if 'train' in arguments else {}
  signature = inspect.signature(getattr(module_type, method))
  try:
    signature.bind(None, *positional, **by_name)
  except TypeError as error:
    call = ', '.join([*positional, *(f'{key}={value}' for key, value in by_name.items())])
    raise ModelError(
      f'model {name!r}: {module_type.__name__}.{method}{signature} cannot be called as '
      f'{method}({call}): {error}'
    ) from None


def check_needs(name: str, config: Any) -> None:
  """Checks that ``config.needs`` names kinds of streams that exist and blocks of its own streams.

  Args:
    name: of the model.
    config: an instance of its config dataclass.
  """
  from vidcap_jax.models.captioner import Needs  # it imports this module

  needs = getattr(config, 'needs', None)
  if not isinstance(needs, Needs) or not isinstance(needs.streams, Mapping):
    found = 'a method' if callable(needs) else repr(needs)
    raise ModelError(
      f'model {name!r}: {type(config).__name__}.needs is {found}; it must be a @property that '
      "returns captioner.Needs({'STREAM': (KIND, …)}) of the streams that the model reads"
    )
  for stream, kinds in needs.streams.items():
    if isinstance(kinds, str) or not set(kinds) <= set(KINDS):
      raise ModelError(
        f'model {name!r}: needs.streams[{stream!r}] is {kinds!r}; use a tuple of {tuple(KINDS)}'
      )
  if unknown := sorted(set(needs.blocks) - set(needs.streams)):
    raise ModelError(f'model {name!r}: needs.blocks names {unknown}, which needs.streams lacks')


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


def record_edits(module: nn.Module) -> tuple[nn.Module, set[str]]:
  """The same module with an ``edit`` that changes nothing, and the names that it is called with.

  The set is filled while the module is traced. A module without a field ``edit`` is returned as it
  is.
  """
  edited: set[str] = set()
  if not hasattr(module.config, 'edit'):
    return module, edited
  edit = module.config.edit

  def record(name, weights, mask):
    edited.add(name)
    return weights if edit is None else edit(name, weights, mask)

  return module.clone(config=dataclasses.replace(module.config, edit=record)), edited


def run_once(module: nn.Module, inputs: Any, edited: Collection[str]) -> None:
  """Calls each method of a captioner once, as ``flax.linen.init`` needs, and checks the shapes.

  Args:
    module: a bound captioner.
    inputs: ``captioner.Inputs`` of B videos.
    edited: of ``record_edits``, which made the module.
  """
  from vidcap_jax.models.captioner import Noise  # it imports this module

  B, S, L, V = inputs.batch_size, 2, 3, module.config.vocab_size
  noise = module.noise(jax.random.key(0), inputs, S, L)
  _check_type(module, 'noise', noise, Noise, 'captioner.Noise(encoder, steps)')
  _check_leading(module, 'noise(…).encoder', noise.encoder, B=B)
  _check_leading(module, 'noise(…).steps', noise.steps, L=L)
  memory = module.encode(inputs, None, train=False)
  _check_leading(module, 'the memory of encode', memory, B=B)
  carry = module.start(memory, S, L)
  _check_leading(module, 'the carry of start', carry, B=B, S=S)
  with nn.intercept_methods(_step_dense_check(module)):
    x = module.embed(jnp.zeros((B, S), jnp.int32), None)
    _check_type(module, 'embed', x, jax.Array, 'an array (…, E) for words (…,)')
    after, hidden, extras = _checked_step(
      module, module.step(carry, x, memory, None, train=False), B, S
    )
    logits = module.logits(hidden)
  if _types(after) != _types(carry):
    _fail(module, f'step changes the types of the carry: {_types(carry)} to {_types(after)}')
  _check_extras(module, extras, B, S)
  _check_edits(module, extras.attention, edited)
  _check_axes(module, extras.attention, inputs.masks)
  if hasattr(module, 'teacher_force'):
    _check_teacher_force(module, memory, hidden, extras, L)
  _check_type(module, 'logits', logits, jax.Array, f'an array (…, V = {V})')
  if logits.shape != (B, S, V):
    _fail(module, f'logits of hidden {hidden.shape} are {logits.shape}; they must be (…, V = {V})')


def _checked_step(module: nn.Module, returned: Any, B: int, S: int) -> tuple[Any, jax.Array, Any]:
  """What step returns, if it is a carry, a hidden state and ``captioner.Extras``."""
  from vidcap_jax.models.captioner import Extras  # it imports this module

  _check_type(module, 'step', returned, tuple, _STEP_RETURNS)
  if len(returned) != 3:
    _fail(module, f'step returns {len(returned)} values; it must return {_STEP_RETURNS}')
  after, hidden, extras = returned
  _check_type(module, 'step', hidden, jax.Array, _STEP_RETURNS, ' in the second place')
  _check_leading(module, 'the hidden state of step', hidden, B=B, S=S)
  _check_type(module, 'step', extras, Extras, _STEP_RETURNS, ' in the third place')
  return after, hidden, extras


def _check_teacher_force(
  module: nn.Module, memory: Any, hidden: jax.Array, extras: Any, L: int
) -> None:
  """Checks that teacher_force of L words returns what step returns, with a leading axis L."""
  words = jnp.zeros((L, *hidden.shape[:2]), jnp.int32)
  returned = module.teacher_force(module.embed(words, None), memory, None, train=False)
  expected = _types((hidden, extras), L)
  if (found := _types(returned)) != expected:
    _fail(
      module,
      f'teacher_force of {L} words returns {found}; it must return what step returns, hidden and '
      f'Extras, with a leading axis of the words: {expected}',
    )


def _check_type(
  module: nn.Module, method: str, value: Any, kind: type, required: str, place: str = ''
) -> None:
  """Checks the type of what a method returns; ``required`` describes it for the message."""
  if not isinstance(value, kind):
    _fail(module, f'{method} returns {type(value).__name__}{place}; it must return {required}')


def _check_extras(module: nn.Module, extras: Any, B: int, S: int) -> None:
  """Checks the ``captioner.Extras`` of a step."""
  if not isinstance(extras.attention, Mapping):
    found = type(extras.attention).__name__
    _fail(module, f'Extras.attention of step is {found}; it must be a dict {{name: weights}}')
  _check_leading(module, 'the attention weights of step', extras.attention, B=B, S=S)
  for name in ('aux', 'draw_log_prob'):
    value = getattr(extras, name)
    if value is None and name == 'draw_log_prob':
      continue
    if value is None or jnp.shape(value) != (B, S):
      found = 'None' if value is None else f'of shape {jnp.shape(value)}'
      _fail(module, f'Extras.{name} of step is {found}; it must be (B, S) = ({B}, {S})')


def _check_edits(module: nn.Module, attention: Mapping, edited: Collection[str]) -> None:
  """Checks that the weights of each attention are passed through the config's ``edit``."""
  how = 'make the weights by attention.weigh(name, scores, mask, config.edit), or by a layer of '
  how += 'layers/attention.py with edit=config.edit'
  if attention and not hasattr(module.config, 'edit'):
    _fail(
      module,
      f'{type(module.config).__name__} has no field edit, which studies set to change attention '
      f'weights; add `edit: Edit | None = None` and {how}',
    )
  if missing := [name for name in attention if not {name, name.rpartition('/')[2]} & {*edited}]:
    _fail(
      module,
      f'the attention weights {missing} of step do not pass through config.edit, which studies set '
      f'to change them; {how}, under the name that Extras.attention has',
    )


def _check_axes(module: nn.Module, attention: Mapping, masks: Mapping) -> None:
  """Checks that the config's ``attentions`` declares the axes of all weights, and no others."""
  declared = getattr(module.config, 'attentions', {})
  if {*attention} != {*declared}:
    _fail(
      module,
      f'{type(module.config).__name__}.attentions declares {sorted(declared)}, step returns '
      f'weights of {sorted(attention)}; return an attention_axes.AttentionAxes for each of these '
      'from the property attentions: studies show what each weight is over',
    )
  for name, axes in declared.items():
    for stream in filter(None, (axes.stream, *axes.streams)):
      if stream not in masks:
        _fail(module, f'attentions[{name!r}] names the stream {stream!r}, which is not read')
    if axes.frames and 'frames' not in getattr(declared.get(axes.frames), 'axes', ()):
      _fail(module, f'attentions[{name!r}].frames is {axes.frames!r}: not an attention over frames')
    try:
      entries = sum(entries_of(masks, stream) for stream in axes.streams)
      axes.shape(attention[name].shape[2:], places_of(masks, axes.stream), entries)
    except ValueError as error:
      _fail(module, f'attentions[{name!r}]: {error}')


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


def _types(tree: Any, *leading: int) -> Any:
  """The shape of each array after the axes ``leading``, and its dtype."""
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct((*leading, *jnp.shape(x)), jnp.result_type(x)), tree
  )


def _check_leading(module: nn.Module, what: str, tree: Any, **sizes: int) -> None:
  """Checks that the first axes of every array of a tree have ``sizes``, given by axis name."""
  for path, leaf in jax.tree.leaves_with_path(tree):
    if (shape := jnp.shape(leaf))[: len(sizes)] != tuple(sizes.values()):
      axes = ', '.join(f'{name} = {size}' for name, size in sizes.items())
      _fail(
        module, f'{what}{jax.tree_util.keystr(path)} has shape {shape}; it must begin with {axes}'
      )


def _fail(module: nn.Module, message: str) -> None:
  raise ModelError(f'model {type(module).__name__}: {message}')
