"""What the scans of a traced program carry from round to round."""

from collections.abc import Iterator

import jax
from jax.extend import core

from vidcap_jax.training.cost import inner_programs


def scans_in(program: core.Jaxpr) -> Iterator[core.JaxprEqn]:
  """Every scan in a program, at any depth."""
  for equation in program.eqns:
    if equation.primitive.name == 'scan':
      yield equation
    for inner in inner_programs(equation.params):
      yield from scans_in(inner)


def carried_shapes(function, *args) -> list[tuple[int, ...]]:
  """Shapes of all arrays that scans of function(*args) carry."""
  program = jax.make_jaxpr(function)(*args)
  return [
    variable.aval.shape
    for scan in scans_in(program.jaxpr)
    for variable in scan.outvars[: scan.params['num_carry']]
  ]
