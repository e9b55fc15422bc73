"""A run without data: clips are rendered, learned, scored, and captioned from their files."""

import json
import re

import pytest

from benchmarks import run_results
from configs import quickstart
from data_prep.synthetic import clips
from tests import tiny

pytest.importorskip('av')


def test_a_run_that_makes_its_own_data(tmp_path, capsys):
  config = quickstart.get_config('runlocal')
  with config.unlocked():
    config.data.recipe.videos = 12
    config.data.recipe.show = 2
    config.train.epochs = 2.0
    config.eval.every_epochs = 1.0
    config.model.hidden = config.model.embed = config.model.project = config.model.attention = 8
    config.decode.method = 'greedy'
  config.log.tensorboard = False
  with tiny.unscored_by_java():
    workdir = tiny.run(config, tmp_path / 'work', clips)
    output = capsys.readouterr().out
    facts = json.loads((workdir / 'data' / 'facts.json').read_text())
    of_test = sorted(name for name, fact in facts.items() if fact['split'] == 'test')
    captions = json.loads((workdir / 'eval' / 'test' / 'captions.json').read_text())
    assert sorted(c['video_id'] for c in captions) == of_test
    caption_of = {c['video_id']: c['caption'] for c in captions}
    correct = clips.first_captions(workdir / 'data')
    rows = [re.split('  +', line) for line in output.splitlines() if '.mp4  ' in line]
    # The caption of a file is that of the record made of it.
    assert rows == [[f'{v}.mp4', correct[v], caption_of[v]] for v in of_test[:2]]
    report = json.loads((workdir / 'eval' / 'test' / 'metrics.json').read_text())
    (row,) = (line.split() for line in output.splitlines() if line.startswith('CIDEr '))
    assert float(row[1]) == pytest.approx(report['CIDEr'], abs=1e-3)
    assert float(row[2]) == pytest.approx(report['constant_CIDEr'], abs=1e-3)
    assert 'stage 1 of 1: xe, cross entropy' in output
    (hint,) = (line for line in output.splitlines() if line.startswith('results are in'))
    assert hint.endswith('--inputs=FILES')

    left = run_results.read_run(workdir)
    made = {p: p.stat().st_mtime_ns for p in (workdir / 'data').rglob('*') if p.is_file()}
    tiny.run(config, workdir, clips)
    assert 'finished before' in capsys.readouterr().out
    assert run_results.read_run(workdir) == left
    assert {p: p.stat().st_mtime_ns for p in (workdir / 'data').rglob('*') if p.is_file()} == made
