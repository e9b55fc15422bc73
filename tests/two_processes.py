"""One of COUNT processes that train together.

Arguments: PORT COUNT INDEX CONFIG DATA WORKDIR, CONFIG being a function of ``tests.tiny``.
"""

import sys

import jax

PORT, COUNT, INDEX, CONFIG, DATA, WORKDIR = sys.argv[1:]
jax.distributed.initialize(f'localhost:{PORT}', int(COUNT), int(INDEX))

from tests import tiny  # noqa: E402  devices are counted when it is imported

if __name__ == '__main__':
  with tiny.unscored_by_java():
    tiny.run(getattr(tiny, CONFIG)(DATA), WORKDIR)
