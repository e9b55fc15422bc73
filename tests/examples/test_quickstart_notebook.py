"""The notebook is stored without outputs, and runs from its first cell to its last."""

import ast
import json
import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOK = ROOT / 'examples' / 'quickstart.ipynb'


def test_outputs_are_cleared():
  cells = json.loads(NOTEBOOK.read_text())['cells']
  code = [cell for cell in cells if cell['cell_type'] == 'code']
  assert len(code) > 5
  for cell in code:
    assert (cell['outputs'], cell['execution_count']) == ([], None)
    ast.parse(''.join(cell['source']))
  assert NOTEBOOK.stat().st_size < 20_000


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_notebook_runs(tmp_path, monkeypatch):
  nbclient, nbformat = pytest.importorskip('nbclient'), pytest.importorskip('nbformat')
  pytest.importorskip('ipykernel')
  monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')]))
  monkeypatch.delenv('XLA_FLAGS')  # a user has none
  notebook = nbformat.read(NOTEBOOK, as_version=4)
  resources = {'metadata': {'path': str(tmp_path)}}
  nbclient.NotebookClient(notebook, timeout=3600, resources=resources).execute()
  outputs = [output for cell in notebook.cells for output in cell.get('outputs', ())]
  texts = [output.get('data', {}).get('text/plain', '') for output in outputs]
  assert any('missing.mp4' in text for text in texts)
  assert any('temporal' in text for text in texts)
  assert any('image/png' in output.get('data', {}) for output in outputs)
  (scores,) = [ast.literal_eval(text) for text in texts if 'constant_CIDEr' in text]
  assert scores['CIDEr'] > 2 * scores['constant_CIDEr']
