"""Workdirs of runs as training and evaluation leave them, without checkpoints."""

import json

from tests.vidcap_jax.studies.test_tables import made, save, scored

DATA = {'name': 'clips', 'hash': '0123456789abcdef', 'dir': '/gone'}
SOURCE = 'configs/msrvtt1000.py:model=transformer'


def write(workdir, source=SOURCE, seed=0, split='test', cider=0.5, about=(), **changes):
  """A finished run of one stage, 'xe', of 20 steps in 2 epochs and 3 minutes.

  ``about`` is added to metrics.json.
  """
  made(workdir, source, seed=seed, **changes)
  about = {'data': DATA, 'stage': 'xe', 'constant_caption': 'a dog', **dict(about)}
  scored(workdir, split, about=about, CIDEr=cider, BLEU_1=0.6)
  train = {'stage': 'xe', 'kind': 'train', 'loss': 1.0, 'captions_per_second': 50.0}
  records = [
    {**train, 'step': 10, 'epoch': 1.0, 'seconds': 60.0},
    {'stage': 'xe', 'step': 10, 'kind': 'val', 'CIDEr': cider - 0.2},
    {**train, 'step': 20, 'epoch': 2.0, 'seconds': 120.0, 'captions_per_second': 80.0},
    {'stage': 'xe', 'step': 20, 'kind': 'val', 'CIDEr': cider - 0.1},
  ]
  (workdir / 'metrics.jsonl').write_text(''.join(json.dumps(r) + '\n' for r in records))
  save(workdir / 'stages.json', {'xe': {'best_score': 0.4}})
  seconds = {'stepping': 150.0, 'evaluating': 60.0, 'stopped': 1000.0}
  save(workdir / 'goodput.json', {'seconds': seconds, 'hardware': '2 cores, Chip'})
  return workdir
