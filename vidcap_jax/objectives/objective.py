"""The interface of objectives: what a stage of training minimises."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from vidcap_jax.data.vocabulary import Vocabulary

Array = jax.Array
LOOK = 10  # steps: to look at a result keeps the device waiting


def _nothing_kept(videos: int, captions: int) -> Any:
  return {}


def _no_tables(captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Any:
  return {}


@dataclasses.dataclass(frozen=True)
class Objective:
  """What a stage of training needs to know of its objective.

  Attributes:
    loss: (params, batch, inputs, key, epoch, kept) -> (scalar to minimise, (report, kept)).
      ``batch`` holds captions (B, S, L), caption_index (B, S) and video_index (B,), -1 for padding,
      and ``tables``; ``key`` is the step's; ``epoch`` () counts from 0 and has a fraction; the
      report's scalars are logged, 'loss' among them, in a unit that batches can be compared by.
    kept: (videos, most captions of one) -> what is kept from step to step, for each video of the
      training split or in all, as a pytree of arrays; it is part of every checkpoint.
    tables: (captions of each video of the training split, vocabulary) -> a pytree of arrays that is
      made once and does not change; every batch carries it.
    draws: name -> (params, batch, inputs, key) -> arrays (B, …). What ``host`` looks at, made
      before each step with the step's own parameters and key.
    host: (captions of each video, vocabulary) -> a function (drawn, video_index) -> name -> arrays
      (B, …), which the batch carries in ``drawn`` beside the ``draws``. It works outside the
      compiled step on this host's rows; ``drawn`` has a function for each of ``draws`` that waits
      for its result, so that the device makes the later ones while the host looks at the first.
    stop: (report, as numbers) -> why the stage should end here, or ''; asked at every step whose
      number LOOK divides, whatever is logged: it decides what is trained.
  """

  loss: Callable[..., tuple[Array, tuple[dict[str, Array], Any]]]
  kept: Callable[[int, int], Any] = _nothing_kept
  tables: Callable[[Sequence[Sequence[str]], Vocabulary], Any] = _no_tables
  draws: Mapping[str, Callable[..., Array]] = dataclasses.field(default_factory=dict)
  host: Callable[[Sequence[Sequence[str]], Vocabulary], Callable[..., dict]] | None = None
  stop: Callable[[Mapping[str, float]], str] | None = None
