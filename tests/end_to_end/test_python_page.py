"""The examples of docs/python.md run, one after another."""

import pathlib
import re

from tests import tiny
from vidcap_jax.studies import run_pictures

PAGE = pathlib.Path(__file__).parents[2] / 'docs' / 'python.md'


def test_every_block_of_the_page_runs(inside, monkeypatch):
  blocks = re.findall(r'```python\n(.*?)```', PAGE.read_text(), re.DOTALL)
  assert len(blocks) > 7
  monkeypatch.setattr(run_pictures, 'draw', lambda *_: None)  # slow
  names: dict = {}
  with tiny.unscored_by_java():
    for block in blocks:
      exec(compile(block, str(PAGE), 'exec'), names)
