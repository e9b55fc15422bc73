"""Results of an evaluation on the disk, as ``evaluate`` writes them, with hostile names."""

import json
import pathlib

HOSTILE = '</script><script>window.hacked = 1</script>"\'&amp;<img src=x onerror="hacked = 1">'
# __proto__ as a key of an object would change its prototype.
IDS = (HOSTILE, '__proto__', '../../etc/passwd', 'a b\u2028c', *(f'v{i}' for i in range(40)))


def write(folder: pathlib.Path, ids=IDS, caption=lambda i: f'a dog runs {i % 3}', **metrics):
  """Writes metrics.json and captions.json of videos without references."""
  folder.mkdir(parents=True)
  captions = [
    {
      'video_id': video_id,
      'caption': caption(i),
      'log_prob': -1.0 - i,
      'captions': [{'caption': f'{HOSTILE} {i}', 'log_prob': -2.0 - i}],
    }
    for i, video_id in enumerate(ids)
  ]
  contents = {
    'split': 'val',
    'videos': len(captions),
    'references': False,
    'checkpoint': str(folder / 'gone' / 'checkpoints' / 'xe' / '7'),
    'checkpoint_step': 7,
    'stage': 'xe',
    'data': {'dir': str(folder / 'no data'), 'hash': 'abc', 'name': HOSTILE},
    'decode': {'method': HOSTILE},
    **metrics,
  }
  (folder / 'metrics.json').write_text(json.dumps(contents))
  (folder / 'captions.json').write_text(json.dumps(captions))
  return folder


def read_data(report: pathlib.Path, name: str):
  """The value that data/NAME.js hands over."""
  text = (report / 'data' / f'{name}.js').read_text(encoding='utf-8')
  value = text.removeprefix(f'vidcapReport.receive("{name}",').removesuffix(');\n')
  return json.loads(value)
