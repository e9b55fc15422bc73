"""Counts the programs that JAX compiles, to see that requests need none."""

from collections.abc import Callable

import jax

# JAX's name of the event, with or without its cache of compiled programs.
_EVENT = '/jax/core/compile/backend_compile_duration'


def count_compilations(compiled: Callable[[], None] = lambda: None) -> Callable[[], int]:
  """Counts from now on.

  Args:
    compiled: called for each program.

  Returns:
    A function that returns how many programs this process has compiled since.
  """
  count = 0

  def listen(event: str, duration_secs: float, **_: str | int) -> None:
    nonlocal count
    if event == _EVENT:
      count += 1
      compiled()

  jax.monitoring.register_event_duration_secs_listener(listen)
  return lambda: count
