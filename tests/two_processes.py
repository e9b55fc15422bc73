"""One of COUNT processes that train together; arguments: PORT COUNT INDEX DATA WORKDIR."""

import sys

import jax

PORT, COUNT, INDEX, DATA, WORKDIR = sys.argv[1:]
jax.distributed.initialize(f'localhost:{PORT}', int(COUNT), int(INDEX))

from tests import tiny  # noqa: E402  devices are counted when it is imported

if __name__ == '__main__':
  with tiny.without_java():
    tiny.run(tiny.small_config(DATA, epochs=1.5), WORKDIR)
