"""A scan that takes the gradients of weights in one product after its last round.

The gradient of ``jax.lax.scan`` adds a matrix as large as the weights to their gradient at every
round. Here zeros are added to each product y_t = x_t W. The gradient with respect to the zeros at
round t is that of y_t, dy_t, and the gradient of W is the sum of x_t^T dy_t over all rounds, which
is one large product. The gradient of a bias is the sum of dy_t: inside of the scan it would also be
summed over devices at every round.

A CPU's product with a transposed kernel is slow for the few rows of a round. There the kernels are
transposed once, before the gradient's rounds read them.
"""

import functools
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from vidcap_jax.distributed.mesh import batch_platform

Array = jax.Array
# The place of a layer in the parameters: above its kernel, bias or embedding.
Path = tuple[str, ...]
# An array for each call of a layer: its inputs (word ids for a table), its outputs, or zeros of the
# outputs' shape. The key is the layer and the number of its call in a round.
ArrayByCall = dict[tuple[Path, int], Array]
# (layer, its inputs, the function of inputs that it is) -> its outputs.
Observe = Callable[[Path, Array, Callable[[Array], Array]], Array]
Step = Callable[[Any, Any, Any, Any, Observe], tuple[Any, Any]]


def scan(step: Step, params: Any, constants: Any, init: Any, xs: Any) -> tuple[Any, Any]:
  """``jax.lax.scan`` of (state, x) -> step(params, constants, state, x, observe), from init.

  Gradients are those of ``jax.lax.scan`` up to the order of sums. Those of the weights of layers
  that are observed are taken after the last round, all others as usual.

  Args:
    step: calls a layer of ``params`` by observe(path, inputs, layer). It must not close over
      anything that is differentiated.
  """

  @jax.custom_vjp
  def run(params, constants, init, xs):
    unchanged = lambda path, x, layer: layer(x)  # noqa: E731
    return jax.lax.scan(lambda state, x: step(params, constants, state, x, unchanged), init, xs)

  def forward(params, constants, init, xs):
    first = jax.tree.map(lambda x: x[0], xs)
    length = len(jax.tree.leaves(xs)[0])
    observed = lambda *args: _observed_step(step, *args)[2:]  # noqa: E731
    _, outputs = jax.eval_shape(observed, params, constants, init, first)
    zeros = {call: jnp.zeros((length, *y.shape), y.dtype) for call, y in outputs.items()}
    kernels = _transposed_kernels(params, outputs) if batch_platform() == 'cpu' else {}

    def scan_with_zeros(params, constants, init, xs, zeros):
      params = _map_weights(lambda _, weight: jax.lax.stop_gradient(weight), params, zeros)

      def round_with_zeros(state, x_and_zeros):
        x, zeros = x_and_zeros
        found = _observed_step(step, params, constants, state, x, zeros, kernels)
        state, out, inputs, _ = found
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


def _observed_step(
  step: Step,
  params,
  constants,
  state,
  x,
  zeros: ArrayByCall | None = None,
  kernels: Mapping[Path, Array] = MappingProxyType({}),
):
  """A step, with zeros added to the outputs of the layers that are observed.

  Args:
    kernels: of ``_transposed_kernels``, read by the gradients of layers' inputs.

  Returns:
    The step's two results, and the inputs and outputs of those layers.
  """
  inputs: ArrayByCall = {}
  outputs: ArrayByCall = {}

  def observe(path, x, layer):
    call = path, sum(path == seen for seen, _ in inputs)
    kernel = kernels.get(path)
    if kernel is not None and kernel.dtype != x.dtype:
      kernel = None  # products of two dtypes have a gradient of their own, see layers/dense.py
    inputs[call] = x
    outputs[call] = y = layer(x if kernel is None else jax.lax.stop_gradient(x))
    if zeros is None:
      return y
    return y + zeros[call] if kernel is None else _dense_output(y, x, zeros[call], kernel)

  state, out = step(params, constants, state, x, observe)
  return state, out, inputs, outputs


def _transposed_kernels(params: Any, outputs: ArrayByCall) -> dict[Path, Array]:
  """The kernels (F, D), transposed, of the dense layers that made these outputs."""
  kernels = {}
  for (path, _), y in outputs.items():
    kernel = functools.reduce(operator.getitem, path, params).get('kernel')
    if kernel is not None and kernel.dtype == y.dtype:
      # Without the barrier, the compiler would move the transposition back into each product.
      kernels[path] = jax.lax.optimization_barrier(kernel.T)
  return kernels


@jax.custom_vjp
def _dense_output(y: Array, x: Array, zeros: Array, kernel: Array) -> Array:
  """The output y of a dense layer for inputs x, which get their gradient from ``kernel`` (F, D)."""
  return y


def _dense_forward(y: Array, x: Array, zeros: Array, kernel: Array):
  return y, kernel


def _dense_backward(kernel: Array, dy: Array):
  dx = jax.lax.dot_general(dy, kernel, (((dy.ndim - 1,), (0,)), ((), ())))
  return None, dx, dy, None


_dense_output.defvjp(_dense_forward, _dense_backward)


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
