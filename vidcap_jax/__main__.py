"""``python -m vidcap_jax`` is the command ``vidcap``."""

from vidcap_jax.cli.commands import run

if __name__ == '__main__':
  run()
