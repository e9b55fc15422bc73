"""``python -m vidcap_jax`` is the command ``vidcap``."""

import sys

from vidcap_jax.cli.commands import main

if __name__ == '__main__':
  sys.exit(main())
