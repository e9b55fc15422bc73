"""A scan over words that takes the gradients of parameters in one product after the last word.

The gradient of ``jax.lax.scan`` adds a matrix as large as the weights to their gradient at every
word. Here zeros are added to each product y_t = x_t W. The gradient with respect to the zeros at
step t is that of y_t, dy_t, and the gradient of W is the sum of x_t^T dy_t over all words, which is
one large product. The gradient of a bias is the sum of dy_t: inside of the scan it would also be
summed over devices at every word.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from vidcap_jax.models.captioner import Captioner
from vidcap_jax.models.layers.dense import StepDense

Array = jax.Array
# An array for each call of a layer: its inputs (word ids for the table), its outputs, or zeros of
# the outputs' shape. The key is the path of the layer and the number of its call in a step.
ArrayByCall = dict[tuple[tuple[str, ...], int], Array]
Body = Callable[[Captioner, Any, Any, Any], tuple[Any, Any]]


def scan(captioner: Captioner, body: Body, memory: Any, init: Any, xs: Any) -> tuple[Any, Any]:
  """``jax.lax.scan`` of (state, x) -> body(captioner, memory, state, x), over xs from init.

  Gradients are those of ``jax.lax.scan`` up to the order of sums. Those of ``StepDense`` layers
  and of the table ``words`` are taken after the last word, all others as usual. A captioner without
  ``rebind`` is scanned as usual.

  Args:
    body: must not close over anything that is differentiated.
  """
  if captioner.rebind is None:
    return jax.lax.scan(functools.partial(body, captioner, memory), init, xs)
  rebind = captioner.rebind

  @jax.custom_vjp
  def run(params, memory, init, xs):
    return jax.lax.scan(functools.partial(body, rebind(params), memory), init, xs)

  def forward(params, memory, init, xs):
    first = jax.tree.map(lambda x: x[0], xs)
    length = len(jax.tree.leaves(xs)[0])
    outputs = jax.eval_shape(
      functools.partial(_traced_step, body, rebind), params, memory, init, first
    )
    zeros = {call: jnp.zeros((length, *y.shape), y.dtype) for call, y in outputs[3].items()}

    def scan_with_zeros(params, memory, init, xs, zeros):
      params = _map_weights(lambda _, weight: jax.lax.stop_gradient(weight), params, zeros)

      def step(state, x):
        state, out, inputs, _ = _traced_step(body, rebind, params, memory, state, *x)
        return state, (out, inputs)

      state, (out, inputs) = jax.lax.scan(step, init, (xs, zeros))
      return (state, out), inputs

    result, pull_back, inputs = jax.vjp(
      scan_with_zeros, params, memory, init, xs, zeros, has_aux=True
    )
    return result, (pull_back, inputs)

  def backward(residuals, cotangent):
    pull_back, inputs = residuals
    params, memory, init, xs, outputs = pull_back(cotangent)  # the gradients of each

    def gradient(path, weight):
      calls = [call for call in inputs if call[0] == path]
      if weight.ndim == 1:
        gradients = (_bias_gradient(weight, outputs[call]) for call in calls)
      else:
        gradients = (_weight_gradient(weight, inputs[call], outputs[call]) for call in calls)
      return sum(gradients, jnp.zeros_like(weight))

    return _map_weights(gradient, params, inputs), memory, init, xs

  run.defvjp(forward, backward)
  return run(captioner.params, memory, init, xs)


def _traced_step(body: Body, rebind, params, memory, state, x, zeros: ArrayByCall | None = None):
  """One step, with zeros added to the outputs of ``StepDense`` layers and of the table ``words``.

  Returns:
    The step's two results, and the inputs and outputs of those layers.
  """
  inputs: ArrayByCall = {}
  outputs: ArrayByCall = {}

  def intercept(call, args, kwargs, context):
    module, y = context.module, call(*args, **kwargs)
    is_table = isinstance(module, nn.Embed) and module.name == 'words'
    if context.method_name != '__call__' or not (is_table or isinstance(module, StepDense)):
      return y
    number = sum(path == module.path for path, _ in inputs)
    inputs[module.path, number], outputs[module.path, number] = args[0], y
    return y if zeros is None else y + zeros[module.path, number]

  with nn.intercept_methods(intercept):
    state, out = body(rebind(params), memory, state, x)
  return state, out, inputs, outputs


def _weight_gradient(weight: Array, inputs: Array, outputs: Array) -> Array:
  """The gradient of a kernel (D, F) or table (V, F), summed over all words in one product.

  Args:
    weight: the kernel or table.
    inputs: of the layer at all words, (L, …, D), or word ids (L, …).
    outputs: the gradients of the layer's outputs (L, …, F).
  """
  if jnp.issubdtype(inputs.dtype, jnp.integer):
    return jnp.zeros_like(weight).at[inputs].add(outputs.astype(weight.dtype))
  # The axes are not merged to one, as videos may be sharded over devices.
  axes = tuple(range(outputs.ndim - 1))
  return jnp.tensordot(
    inputs.astype(outputs.dtype), outputs, (axes, axes), preferred_element_type=weight.dtype
  )


def _bias_gradient(bias: Array, outputs: Array) -> Array:
  """The gradient of a bias (F,), from the gradients of the layer's outputs (L, …, F)."""
  return outputs.astype(bias.dtype).sum(axis=tuple(range(outputs.ndim - 1)))


def _map_weights(change: Callable, params: Any, calls: ArrayByCall) -> Any:
  """Replaces the kernels, biases and tables of those calls by change(path, weight)."""
  paths = {path for path, _ in calls}

  def change_weight(keys, weight):
    *path, name = (key.key for key in keys)
    is_called = tuple(path) in paths and name in ('kernel', 'bias', 'embedding')
    return change(tuple(path), weight) if is_called else weight

  return jax.tree_util.tree_map_with_path(change_weight, params)
