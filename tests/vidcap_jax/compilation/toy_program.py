"""A small program whose compiled text is stored in ``hlo/``, for tests without a compiler.

  python -m tests.vidcap_jax.compilation.toy_program v5e:2x4 > tpu.hlo
  python -m tests.vidcap_jax.compilation.toy_program h100:8 > gpu.hlo

Run it where ``vidcap_jax.compilation.topology`` finds the compiler.
"""

import os
import re
import sys

WORDS, ROWS, SIZE, VOCABULARY, MOST = 21, 64, 512, 1000, 13


def make(mesh):
  """A jitted function and its abstract arguments: a gradient through a scan, and a loop that may
  end sooner."""
  import jax
  import jax.numpy as jnp
  from jax.sharding import NamedSharding, PartitionSpec

  def loss(params, x):
    def read(state, word):
      return jnp.tanh(state @ params['recurrent'] + word), None

    state, _ = jax.lax.scan(read, x[:, 0], jnp.moveaxis(x, 1, 0))

    def unfinished(loop):
      return (loop[0] < MOST) & (loop[1].max() < 1e3)

    def grow(loop):
      return loop[0] + 1, loop[1] * jnp.float32(1.1)

    grown = jax.lax.while_loop(unfinished, grow, (0, jax.lax.stop_gradient(state)))[1]
    return ((state + grown) @ params['words']).sum()

  def step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

  def array(shape, *axes):
    sharding = NamedSharding(mesh, PartitionSpec(*axes))
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)

  params = {'recurrent': array((SIZE, SIZE)), 'words': array((SIZE, VOCABULARY))}
  return jax.jit(step, donate_argnums=0), (params, array((ROWS, WORDS, SIZE), 'data'))


def without_details(text: str) -> str:
  """The text without what takes most of it and is not read."""
  text = re.sub(r', backend_config=\{.*', _kept, text)
  lines = [
    line for line in text.splitlines() if not re.match(r'\d+ [{"]|File|Function|Stack', line)
  ]
  return re.sub(r'\n{3,}', '\n\n', '\n'.join(lines)) + '\n'


def _kept(details: re.Match) -> str:
  """Of an instruction's details, the number of cycles and of rounds."""
  kept = re.findall(r'"estimated_cycles":"\d+"|"known_trip_count":\{"n":"\d+"\}', details[0])
  return f', backend_config={{{",".join(kept)}}}' if kept else ''


def main(name: str) -> None:
  """Prints the compiled text for a topology."""
  from vidcap_jax.compilation import topology

  target = topology.read_topology(name)
  os.environ.update(topology.environment(target))
  from vidcap_jax.distributed.mesh import make_mesh

  function, arguments = make(make_mesh(devices=topology.devices(target)))
  print(without_details(function.lower(*arguments).compile().as_text()), end='')


if __name__ == '__main__':
  main(sys.argv[1])
