"""A scan over words that takes the gradients of parameters after the last word.

``models/layers/late_gradients.py`` says how. Here a captioner's layers are found during its step.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
from flax import linen as nn

from vidcap_jax.models.captioner import Captioner
from vidcap_jax.models.layers import late_gradients
from vidcap_jax.models.layers.dense import StepDense

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

  def step(params, memory, state, x, observe):
    def intercept(call, args, kwargs, context):
      module = context.module
      is_table = isinstance(module, nn.Embed) and module.name == 'words'
      if context.method_name != '__call__' or not (is_table or isinstance(module, StepDense)):
        return call(*args, **kwargs)
      return observe(module.path, args[0], lambda x: call(x, *args[1:], **kwargs))

    with nn.intercept_methods(intercept):
      return body(rebind(params), memory, state, x)

  return late_gradients.scan(step, captioner.params, memory, init, xs)
