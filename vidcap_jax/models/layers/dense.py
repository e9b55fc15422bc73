"""The dense layer for weights that are used at every word of a caption."""

from flax import linen as nn


class StepDense(nn.Dense):
  """An ``nn.Dense`` whose kernel's gradient is taken after the last word of a caption.

  ``vidcap_jax.decoding.scan`` collects the inputs of these layers during the scan over words and
  takes each kernel's gradient as one large product, which is faster than a sum over words.

  A model's ``embed`` and ``step`` must call it directly, not inside of ``jax.checkpoint``,
  ``nn.scan`` or another transformation, which would hide its inputs; ``models/contract.py`` checks
  that when parameters are initialised. Outside of the scan over words (in ``encode``, say) it may
  be called anywhere and is an ``nn.Dense``.
  """
