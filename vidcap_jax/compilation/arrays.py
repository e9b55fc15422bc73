"""The largest arrays of a program before it is compiled, for one that the compiler refuses."""

import math
from collections.abc import Iterator

import jax
from jax.extend import core

from vidcap_jax.compilation.report import Buffer, largest
from vidcap_jax.training.cost import inner_programs


def arrays_of(traced: jax.stages.Traced) -> list[Buffer]:
  """The largest results of a program's operations, of all chips together.

  The compiler fuses many of them away; where it has refused a program it names none.
  """
  return largest(_results(traced.jaxpr.jaxpr, ''))


def _results(program: core.Jaxpr, outer: str) -> Iterator[Buffer]:
  for equation in program.eqns:
    stack = str(equation.source_info.name_stack)
    name = '/'.join(filter(None, (outer, stack, equation.primitive.name)))
    for inner in inner_programs(equation.params):
      yield from _results(inner, name)
    for result in equation.outvars:
      shape, dtype = getattr(result.aval, 'shape', ()), getattr(result.aval, 'dtype', None)
      if dtype is not None and not jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        axes = ','.join(map(str, shape))
        yield Buffer(math.prod(shape) * dtype.itemsize, f'{dtype.name}[{axes}]', name)
