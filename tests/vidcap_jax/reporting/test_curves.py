import json

from vidcap_jax.reporting import curves


def log(folder, steps, score):
  folder.mkdir()
  records = [
    {'stage': 'xe', 'step': step, 'kind': 'train', 'loss': 1 / step, 'epoch': step / 10}
    for step in range(1, steps + 1)
  ]
  records[0]['loss'] = float('nan')
  records.append({'stage': 'xe', 'step': steps, 'kind': 'val', 'CIDEr': score})
  (folder / 'metrics.jsonl').write_text(''.join(json.dumps(r) + '\n' for r in records))
  return folder


def test_panels_have_a_line_for_each_run_that_has_the_metric(tmp_path):
  runs = {'a': log(tmp_path / 'a', 20, 0.5), 'b': log(tmp_path / 'b', 10, 0.25)}
  found = {(p['kind'], p['metric']): p for p in curves.panels({**runs, 'c': tmp_path})}
  assert set(found) == {('val', 'CIDEr'), ('train', 'loss')}
  assert [line['label'] for line in found['val', 'CIDEr']['lines']] == ['a', 'b']
  assert found['val', 'CIDEr']['lines'][0]['points'] == [[2.0, 0.5]]
  assert found['train', 'loss']['by'] == 'epoch'
  assert len(found['train', 'loss']['lines'][0]['points']) == 19  # without NaN


def test_long_lines_are_thinned(tmp_path):
  [_, panel] = curves.panels({'a': log(tmp_path / 'a', 1000, 0.5)})
  points = panel['lines'][0]['points']
  assert 200 <= len(points) <= 300
  assert points[-1][0] > 99
