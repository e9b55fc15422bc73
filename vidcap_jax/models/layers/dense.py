"""The layer whose weights are used at every word."""

from flax import linen as nn


class StepDense(nn.Dense):
  """A dense layer of a step: its kernel's gradient is taken after the last word of a caption.

  It has to be called by the step itself, not under another transformation such as
  ``jax.checkpoint`` (see ``vidcap_jax.decoding.scan``). Everywhere else it is an ``nn.Dense``.
  """
