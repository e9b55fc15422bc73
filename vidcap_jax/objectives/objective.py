"""The interface of objectives: what a stage of training minimises."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class Objective:
  """What a stage of training needs to know of its objective.

  Attributes:
    loss: (params, batch, inputs, key, epoch, per_video) -> (scalar to minimise, (report,
      per_video)). ``batch`` holds captions (B, S, L), caption_index (B, S) and video_index (B,),
      -1 for padding; ``key`` is the step's; ``epoch`` () counts from 0 and has a fraction; the
      report's scalars are logged, 'loss' among them, in a unit that batches can be compared by.
    per_video: (videos, most captions of one) -> what is kept for each video of the training split
      from step to step, as a pytree of arrays; it is part of every checkpoint.
  """

  loss: Callable[..., tuple[Array, tuple[dict[str, Array], Any]]]
  per_video: Callable[[int, int], Any] = lambda videos, captions: {}
