"""The model of model.py with attention: at every word it also reads a weighted mean of frames."""

import dataclasses

import jax
import jax.numpy as jnp
from flax import struct

from examples.extending.model import Carry, MeanGRU, MeanGRUConfig, Memory
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.models.captioner import Extras, Inputs, Needs
from vidcap_jax.models.layers.attention import AdditiveAttention, Edit
from vidcap_jax.models.layers.dense import StepDense
from vidcap_jax.models.layers.dropout import drop

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class AttentionGRUConfig(MeanGRUConfig):
  """Settings of ``MeanGRUConfig``, and

  Attributes:
    attention: size A of the attention space.
    edit: not a setting: studies replace it to change attention weights before they are used.
  """

  attention: int = 128
  edit: Edit | None = None

  @property
  def needs(self) -> Needs:
    """The streams, each with a time axis."""
    return Needs(dict.fromkeys(self.streams, ('sequence',)))

  @property
  def attentions(self) -> dict[str, AttentionAxes]:
    """What the weights in ``Extras.attention`` are over, for studies that show them."""
    return {'temporal': AttentionAxes(('frames',), self.streams[0])}


@struct.dataclass
class AttentionMemory(Memory):
  """Per video: also frames (B, T, D) with keys (B, T, A) and mask (B, T)."""

  frames: Array
  keys: Array
  mask: Array


class AttentionGRU(MeanGRU):
  """Attends to the frames of the first stream."""

  config: AttentionGRUConfig

  def setup(self):
    super().setup()
    c = self.config
    dtypes = {'dtype': c.dtype, 'param_dtype': c.param_dtype}
    self.attend = AdditiveAttention('temporal', c.attention, edit=c.edit, **dtypes)
    self.context = StepDense(c.hidden, **dtypes)

  def encode(self, inputs: Inputs, noise=None, *, train: bool = False) -> AttentionMemory:
    """Keys are projected here, once per video, and not at every word."""
    mask = inputs.masks[self.config.streams[0]]
    frames = jnp.where(mask[..., None], inputs.features[self.config.streams[0]], 0)
    return AttentionMemory(super().encode(inputs).state, frames, self.attend.keys(frames), mask)

  def step(self, carry: Carry, x: Array, memory, noise=None, *, train: bool = False):
    """As ``MeanGRU.step``, with the attended frames added to the hidden state."""
    state = self.cell(x, carry.state)
    context, weights = self.attend(state, memory.keys, memory.frames, memory.mask)
    hidden = jnp.tanh(state + self.context(context))
    hidden = drop(hidden, (noise or {}).get('hidden'), self.config.dropout)
    # The name is the one that the attention was made with: edits find the weights by it.
    extras = Extras({'temporal': weights}, jnp.zeros(state.shape[:2], state.dtype))
    return Carry(state), hidden, extras
