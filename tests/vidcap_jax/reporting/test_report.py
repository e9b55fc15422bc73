"""Reports of a tiny run and of made-up results."""

import json
import shutil

import numpy as np
import pytest

from tests import tiny
from tests.vidcap_jax.reporting import results
from vidcap_jax.data.records import Video
from vidcap_jax.data.schema import Manifest
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.reporting import attention, evaluations, folder, report
from vidcap_jax.reporting.settings import Options

MEGABYTE = 2**20


def write(run, log=lambda line: None, **options):
  with tiny.unscored_by_java():
    return report.write(evaluations.find(str(run), 'val'), Options(**options), log).parent


@pytest.fixture(scope='module')
def other_run(evaluated_run, tmp_path_factory):
  """A run whose captions and settings differ from those of ``evaluated_run``."""
  workdir = tmp_path_factory.mktemp('other') / 'other'
  ignored = shutil.ignore_patterns('checkpoints', 'report')
  shutil.copytree(evaluated_run, workdir, ignore=ignored)
  config = json.loads((workdir / 'config.json').read_text())
  config['optimizer']['learning_rate'] = 0.125
  (workdir / 'config.json').write_text(json.dumps(config))
  captions = json.loads((workdir / 'eval' / 'val' / 'captions.json').read_text())
  captions[0]['caption'] = 'a zebra'
  (workdir / 'eval' / 'val' / 'captions.json').write_text(json.dumps(captions))
  return workdir


def test_scores_texts_and_attention_of_a_run(evaluated_run, restored, tmp_path):
  made = write(evaluated_run, output=str(tmp_path / 'report'))
  own = evaluations.find(str(evaluated_run), 'val')
  summary, videos = (results.read_data(made, name) for name in ('summary', 'videos'))
  scores = {name: (value, low, high) for name, value, low, high in summary['scores']}
  assert scores['CIDEr'][0] == pytest.approx(own.metrics['CIDEr'])
  low, high = own.metrics['intervals']['CIDEr']
  assert scores['CIDEr'][1:] == pytest.approx((low, high))
  assert summary['notes'] == []
  assert summary['constant'] == [own.metrics[f'constant_{n}'] for n in ('caption', 'CIDEr')]
  assert videos['ids'] == list(own.hypotheses)
  assert videos['captions'] == list(own.hypotheses.values())
  assert np.mean(videos['columns']['CIDEr']) == pytest.approx(scores['CIDEr'][0], abs=1e-4)
  assert summary['signature'] == own.metrics['signature']
  assert {panel['kind'] for panel in summary['curves']} == {'train', 'val'}

  texts = results.read_data(made, 'texts-000')
  data = evaluations.data_of(own, None, pytest.fail)
  assert [row[0] for row in texts] == [list(data.videos[id_].captions) for id_ in videos['ids']]

  explained = results.read_data(made, 'attention-000')
  numbers = summary['attention']['videos']
  assert sorted(numbers) == [n for n, caption in enumerate(videos['captions']) if caption]
  assert numbers[0] == summary['orders']['worst'][0]
  for number, entry in zip(numbers, explained, strict=True):
    assert ' '.join(entry['words']) == videos['captions'][number]
    [drawn] = entry['maps']
    weights = np.array(drawn['weights']) / drawn['levels']
    assert weights.shape == (len(entry['words']), len(entry['frames']))
    assert weights.sum(axis=1) == pytest.approx(1, abs=1e-3)


def test_attention_of_some_videos_or_none(evaluated_run, tmp_path):
  made = write(evaluated_run, output=str(tmp_path / 'report'), attention=1)
  assert len(results.read_data(made, 'summary')['attention']['videos']) == 1
  made = write(evaluated_run, output=str(tmp_path / 'report'), attention=0)  # again
  assert results.read_data(made, 'summary')['attention'] == {'videos': [], 'starts': []}


def test_a_comparison_of_two_runs(evaluated_run, other_run, tmp_path):
  output = str(tmp_path / 'report')
  made = write(evaluated_run, output=output, compare=str(other_run), attention=0)
  summary, videos = (results.read_data(made, name) for name in ('summary', 'videos'))
  compared = summary['compare']
  assert compared['label'] == 'other'
  assert compared['changed'] == 1
  assert [row for row in compared['config'] if row[0] == 'optimizer.learning_rate'] == [
    ['optimizer.learning_rate', '0.02', '0.125']
  ]
  assert videos['others'][0] == 'a zebra'
  assert videos['columns']['change'][1:] == [0.0] * (len(videos['ids']) - 1)
  difference, low, high, p = compared['tests']['CIDEr']
  own, other = {r[0]: r[1] for r in summary['scores']}, compared['scores']
  assert difference == pytest.approx(own['CIDEr'] - other['CIDEr'][0])
  assert low <= difference <= high
  assert 0 < p <= 1
  assert len(compared['gained']) + len(compared['lost']) == (videos['columns']['change'][0] != 0)
  assert {line['label'] for panel in summary['curves'] for line in panel['lines']} == {
    'run',
    'other',
  }


def test_comparisons_that_make_no_sense(evaluated_run, other_run, tmp_path):
  output = str(tmp_path / 'report')
  with pytest.raises(DataError, match='--compare'):
    write(evaluated_run, output=output, compare=str(evaluated_run))
  fewer = tmp_path / 'fewer'
  shutil.copytree(other_run, fewer)
  captions = json.loads((fewer / 'eval' / 'val' / 'captions.json').read_text())
  (fewer / 'eval' / 'val' / 'captions.json').write_text(json.dumps(captions[1:]))
  with pytest.raises(DataError, match=f'--compare.*{captions[0]["video_id"]}'):
    write(evaluated_run, output=output, compare=str(fewer))
  with pytest.raises(UserError, match='--videos'):
    write(evaluated_run, output=output, videos=str(tmp_path / 'no'))
  assert not (tmp_path / 'report').exists()


def test_an_ensemble_and_a_late_fusion(evaluated_run, tmp_path):
  own = evaluations.find(str(evaluated_run), 'val')
  paths = [own.metrics['checkpoint']] * 2
  notes: list[str] = []
  for name, extra in (('ensemble', {'checkpoints': paths}), ('fusion', {'runs': paths})):
    place = tmp_path / name
    shutil.copytree(own.folder, place, ignore=shutil.ignore_patterns('report'))
    (place / 'metrics.json').write_text(json.dumps({**own.metrics, name: extra}))
    with tiny.unscored_by_java():
      report.write(evaluations.read(place), Options(attention=1), notes.append)
  [entry] = results.read_data(tmp_path / 'ensemble' / 'report', 'attention-000')
  assert [each['name'] for each in entry['maps']] == ['temporal of 0', 'temporal of 1']
  summary = results.read_data(tmp_path / 'fusion' / 'report', 'summary')
  assert summary['attention']['videos'] == []
  assert any('fusion' in note for note in notes)


def test_a_split_of_one_video(evaluated_run, tmp_path):
  place = tmp_path / 'run'
  shutil.copytree(evaluated_run, place, ignore=shutil.ignore_patterns('report'))
  captions = json.loads((place / 'eval' / 'val' / 'captions.json').read_text())
  (place / 'eval' / 'val' / 'captions.json').write_text(json.dumps(captions[:1]))
  made = write(place, attention=0)
  summary = results.read_data(made, 'summary')
  assert summary['videos'] == 1
  assert summary['orders']['worst'] == [0]
  assert {name for name, *_ in summary['scores']} >= {'CIDEr', 'BLEU_4'}


def test_notes_on_many_videos_are_few_lines():
  lines: list[str] = []
  report._log_notes([f'v{i}: damaged' for i in range(500)] + ['v0: damaged'], lines.append)
  assert len(lines) == 11
  assert '490' in lines[-1]
  lines.clear()
  report._log_notes(['v0: damaged'] * 2, lines.append)
  assert lines == ['v0: damaged']


def test_what_is_missing_is_left_out_with_a_note(tmp_path):
  notes = []
  made = write(results.write(tmp_path / 'results'), notes.append)
  assert made == tmp_path / 'results' / 'report'
  assert any('--data' in note for note in notes)
  summary = results.read_data(made, 'summary')
  assert summary['scores'] == []
  assert summary['orders']['worst'] == []
  assert summary['orders']['uncertain'][0] == len(results.IDS) - 1
  assert summary['data'] == results.HOSTILE
  assert results.read_data(made, 'videos')['ids'] == list(results.IDS)
  for path in made.rglob('*.js'):
    if path.parent.name == 'data':
      assert '<' not in path.read_text(encoding='utf-8')
  assert not any('etc' in path.name or 'v1' in path.name for path in made.rglob('*'))


def test_three_thousand_videos_stay_below_thirty_megabytes(tmp_path, restored, monkeypatch):
  ids = [f'video{i:04}' for i in range(3000)]
  reference = 'a man in a dark coat is talking to a woman beside a car on a street'
  caption = 'a man is talking to a woman about a car on a street'
  source = results.write(tmp_path / 'results', ids, caption=lambda i: caption)
  videos = {id_: Video(id_, tuple(f'{reference} {n}' for n in range(20)), {}) for id_ in ids}
  data = evaluations.DataSplit('nowhere', videos, Manifest('nowhere', (), {}))
  monkeypatch.setattr(evaluations, 'data_of', lambda *_: data)
  words, frames, places = len(caption.split()), 26, 49
  weights = np.random.default_rng(0).dirichlet(np.ones(frames * places), words)
  maps = [
    attention.Map('spatial', ('frames', 'places'), weights.reshape(words, frames, places),
                  tuple(('image', t) for t in range(frames)), grid=(7, 7)),
    attention.Map('temporal', ('frames',), weights.reshape(words, frames, places).sum(2),
                  tuple(('image', t) for t in range(frames))),
  ]  # fmt: skip
  explained = attention.Explained(videos[ids[0]], maps)
  entry = attention.as_json(caption, explained, lambda frame: {'time': 1.25, 'picture': None})
  monkeypatch.setattr(attention, 'can_explain', lambda *_: True)
  monkeypatch.setattr(report, '_described', lambda inputs, chosen, log: [entry for _ in chosen])
  own = evaluations.find(str(source), None)
  made = report.write(own, Options(), lambda line: None, [restored]).parent
  sizes = [path.stat().st_size for path in made.rglob('*') if path.is_file()]
  assert sum(sizes) < 30 * MEGABYTE
  assert len(results.read_data(made, 'summary')['attention']['videos']) == 200
  # What is loaded before anything is chosen.
  first = ('data/summary.js', 'data/videos.js', 'page/report.js', 'page/report.css', 'index.html')
  assert sum((made / name).stat().st_size for name in first) < MEGABYTE
  assert max(path.stat().st_size for path in made.glob('data/texts-*.js')) < MEGABYTE


def test_the_flag_of_evaluate(evaluated_run, command, tmp_path):
  output = tmp_path / 'results'
  flags = ('--mode=evaluate', f'--checkpoint={evaluated_run}', '--split=val', f'--output={output}')
  with tiny.unscored_by_java():
    code, printed, _ = command(*flags, '--report')
  page = output / 'report' / folder.INDEX
  assert code == 0
  assert printed.strip().endswith(str(page))
  assert results.read_data(page.parent, 'summary')['attention']['videos']
  code, _, error = command(*flags, f'--videos={tmp_path}')
  assert code == 1
  assert '--report' in error
  shutil.rmtree(output / 'report')
  (output / 'report').mkdir()
  (output / 'report' / 'mine.txt').write_text('mine')
  captions = (output / 'captions.json').stat().st_mtime_ns
  code, _, error = command(*flags, '--report')
  assert code == 1
  assert '--report' in error
  assert (output / 'captions.json').stat().st_mtime_ns == captions  # nothing was decoded
