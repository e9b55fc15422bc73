"""A config file for the configs of ``tests.tiny``, and vidcap_jax.main with scoring without Java.

    python tests/end_to_end/two_processes.py --coordinator=… \
      --config=tests/end_to_end/two_processes.py:short_config …
"""

from absl import app

from tests import tiny
from vidcap_jax import main
from vidcap_jax.cli import parsing


def get_config(name: str):
  return getattr(tiny, name)('')


if __name__ == '__main__':
  with tiny.unscored_by_java():
    app.run(main.main, flags_parser=parsing.parse)
