"""A config file of ``tests.tiny``'s configs, and the command with scoring that needs no Java.

python tests/two_processes.py --config=tests/two_processes.py:short_config --coordinator=… …
"""

from absl import app

from tests import tiny
from vidcap_jax import main
from vidcap_jax.cli import flags


def get_config(name: str):
  return getattr(tiny, name)('')


if __name__ == '__main__':
  with tiny.unscored_by_java():
    app.run(main.main, flags_parser=flags.parse)
