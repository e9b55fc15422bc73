"""A scan that takes the gradients of weights in one product after its last round.

The gradient of ``jax.lax.scan`` adds a matrix as large as the weights to their gradient at every
round. Here zeros are added to each product y_t = x_t W. The gradient with respect to the zeros at
round t is that of y_t, dy_t, and the gradient of W is the sum of x_t^T dy_t over all rounds, which
is one large product. The gradient of a bias is the sum of dy_t: inside of the scan it would also be
summed over devices at every round.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Array = jax.Array
# The place of a layer in the parameters: above its kernel, bias or embedding.
Path = tuple[str, ...]
# An array for each call of a layer: its inputs (word ids for a table), its outputs, or zeros of the
# outputs' shape. The key is the layer and the number of its call in a round.
ArrayByCall = dict[tuple[Path, int], Array]
# (layer, its inputs, its outputs) -> the outputs to go on with.
Observe = Callable[[Path, Array, Array], Array]
Step = Callable[[Any, Any, Any, Any, Observe], tuple[Any, Any]]


def scan(step: Step, params: Any, constants: Any, init: Any, xs: Any) -> tuple[Any, Any]:
  """``jax.lax.scan`` of (state, x) -> step(params, constants, state, x, observe), from init.

  Gradients are those of ``jax.lax.scan`` up to the order of sums. Those of the weights of layers
  that are observed are taken after the last round, all others as usual.

  Args:
    step: passes what a layer of ``params`` returns through observe(path, inputs, outputs). It must
      not close over anything that is differentiated.
  """

  @jax.custom_vjp
  def run(params, constants, init, xs):
    unchanged = lambda path, x, y: y  # noqa: E731
    return jax.lax.scan(lambda state, x: step(params, constants, state, x, unchanged), init, xs)

  def forward(params, constants, init, xs):
    first = jax.tree.map(lambda x: x[0], xs)
    length = len(jax.tree.leaves(xs)[0])
    observed = lambda *args: _observed_step(step, *args)[2:]  # noqa: E731
    _, outputs = jax.eval_shape(observed, params, constants, init, first)
    zeros = {call: jnp.zeros((length, *y.shape), y.dtype) for call, y in outputs.items()}

    def scan_with_zeros(params, constants, init, xs, zeros):
      params = _map_weights(lambda _, weight: jax.lax.stop_gradient(weight), params, zeros)

      def round_with_zeros(state, x):
        state, out, inputs, _ = _observed_step(step, params, constants, state, *x)
        return state, (out, inputs)

      state, (out, inputs) = jax.lax.scan(round_with_zeros, init, (xs, zeros))
      return (state, out), inputs

    result, pull_back, inputs = jax.vjp(
      scan_with_zeros, params, constants, init, xs, zeros, has_aux=True
    )
    return result, (pull_back, inputs)

  def backward(residuals, cotangent):
    pull_back, inputs = residuals
    params, constants, init, xs, outputs = pull_back(cotangent)  # the gradients of each

    def gradient(path, weight):
      calls = [call for call in inputs if call[0] == path]
      if weight.ndim == 1:
        gradients = (_bias_gradient(weight, outputs[call]) for call in calls)
      else:
        gradients = (_weight_gradient(weight, inputs[call], outputs[call]) for call in calls)
      return sum(gradients, jnp.zeros_like(weight))

    return _map_weights(gradient, params, inputs), constants, init, xs

  run.defvjp(forward, backward)
  return run(params, constants, init, xs)


def _observed_step(step: Step, params, constants, state, x, zeros: ArrayByCall | None = None):
  """A step, with zeros added to the outputs of the layers that are observed.

  Returns:
    The step's two results, and the inputs and outputs of those layers.
  """
  inputs: ArrayByCall = {}
  outputs: ArrayByCall = {}

  def observe(path, x, y):
    call = path, sum(path == seen for seen, _ in inputs)
    inputs[call], outputs[call] = x, y
    return y if zeros is None else y + zeros[call]

  state, out = step(params, constants, state, x, observe)
  return state, out, inputs, outputs


def _weight_gradient(weight: Array, inputs: Array, outputs: Array) -> Array:
  """The gradient of a kernel (D, F) or table (V, F), summed over all rounds in one product.

  Args:
    weight: the kernel or table.
    inputs: of the layer at all rounds, (L, …, D), or word ids (L, …).
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
