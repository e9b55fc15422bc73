"""A run without data: clips are rendered, learned, scored, and captioned from their files."""

import json

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
    shown = [json.loads(line) for line in output.splitlines() if line.startswith('{')]
    spoken = {c['video_id']: c['caption'] for c in captions}
    # What is said of a file is what was said of the record made of it.
    assert [(s['video_id'], s['caption']) for s in shown] == [(v, spoken[v]) for v in of_test[:2]]
    assert all(f'{name}: ' in output for name in of_test[:2])

    left = run_results.read_run(workdir)
    made = {p: p.stat().st_mtime_ns for p in (workdir / 'data').rglob('*') if p.is_file()}
    tiny.run(config, workdir, clips)
    assert 'finished before' in capsys.readouterr().out
    assert run_results.read_run(workdir) == left
    assert {p: p.stat().st_mtime_ns for p in (workdir / 'data').rglob('*') if p.is_file()} == made
