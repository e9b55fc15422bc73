"""The interface of objectives: what a stage of training minimises."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from vidcap_jax.data.vocabulary import Vocabulary

Array = jax.Array
STOP_CHECK_STEPS = 10  # Reading a result keeps the device waiting, so not every step is checked.


def _no_state(videos: int, captions: int) -> Any:
  return {}


def _no_tables(captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Any:
  return {}


@dataclasses.dataclass(frozen=True)
class Objective:
  """The functions of an objective that a stage of training calls.

  Attributes:
    loss: (params, batch, inputs, key, epoch, state) -> (scalar to minimise, (report, state)).
      ``batch`` holds captions (B, S, L), caption_index (B, S) and video_index (B,), -1 for padding,
      and ``tables``; ``key`` is the step's; ``epoch`` () counts from ``train.first_epoch`` and has
      a fraction; the report's scalars are logged, 'loss' among them, in a unit that batches can be
      compared by.
    initial_state: (videos of the training split, most captions of one) -> the state that the loss
      gets and returns at each step, a pytree of arrays; it is part of every checkpoint.
    tables: (captions of each video of the training split, vocabulary) -> a pytree of arrays that is
      made once and does not change; every batch carries it.
    device_samples: name -> (params, batch, inputs, key) -> arrays (B, …). Computed before each step
      with the step's own parameters and key, for ``host_reward``.
    host_reward: (captions of each video, vocabulary) -> a function (samples, video_index) -> name
      -> arrays (B, …), which the batch carries in ``drawn`` beside the ``device_samples``. It runs
      outside the compiled step on this host's rows; ``samples`` has a function for each of
      ``device_samples`` that waits for its result, so that the device computes the later ones while
      the host scores the first.
    stop: (report, as numbers) -> why the stage should end here, or ''; called at every step whose
      number STOP_CHECK_STEPS divides, whatever is logged, since it decides what is trained.
    notes: (captions of each video, vocabulary) -> lines to log before training, such as what cannot
      be learned from these captions.
    fixed_params: names of the module's parameters (those at the top, with all that is below them)
      that no step changes: they get no gradient, and no update of the optimiser.
  """

  loss: Callable[..., tuple[Array, tuple[dict[str, Array], Any]]]
  initial_state: Callable[[int, int], Any] = _no_state
  tables: Callable[[Sequence[Sequence[str]], Vocabulary], Any] = _no_tables
  device_samples: Mapping[str, Callable[..., Array]] = dataclasses.field(default_factory=dict)
  host_reward: Callable[[Sequence[Sequence[str]], Vocabulary], Callable[..., dict]] | None = None
  stop: Callable[[Mapping[str, float]], str] | None = None
  notes: Callable[[Sequence[Sequence[str]], Vocabulary], Sequence[str]] | None = None
  fixed_params: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class NoSettings:
  """The settings of an objective that has none."""
