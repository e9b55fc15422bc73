"""Drawing without matplotlib says what to install."""

import sys

import pytest

from tests import tiny
from vidcap_jax.studies import drawing, mask_ratio


@pytest.fixture(autouse=True, scope='module')
def no_java():
  with tiny.without_java():
    yield


def test_drawing_without_matplotlib_says_what_to_install(monkeypatch, tiny_run):
  monkeypatch.setitem(sys.modules, 'matplotlib.figure', None)
  arguments = [f'--checkpoint={tiny_run}', '--attention=temporal', '--plot=x.png']
  with pytest.raises(SystemExit, match=r'error: matplotlib is needed.*vidcap_jax\[report\]'):
    mask_ratio.main(arguments)


def test_characters_that_the_font_lacks_make_one_note(tmp_path, capsys, recwarn):
  pytest.importorskip('matplotlib')
  picture = drawing.figure()
  picture.text(0.5, 0.5, '一个男人')
  drawing.save(picture, tmp_path / 'a.png')
  assert not recwarn.list
  assert capsys.readouterr().err.count('a.png') == 1
