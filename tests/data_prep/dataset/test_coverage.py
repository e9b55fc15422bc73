"""How many videos of each split have which streams."""

import json

import numpy as np

from data_prep.dataset.builder import build
from data_prep.report.summary import metric_word_notes
from tests.building import options, write_stream


def test_coverage(source):
  (source / 'image' / 'v1.npy').unlink()
  np.save(source / 'image' / 'v3.npy', np.full((2, 4), 1e6))
  (source / 'clips.csv').open('a').write('\nv6,,train\nv7,x,val')
  write_stream(source, 'audio', lambda n: np.ones((n % 2, 2)))
  np.save(source / 'image' / 'v6.npy', np.ones((2, 4)))
  np.save(source / 'audio' / 'v6.npy', np.ones((2, 2)))
  manifest, _ = build(
    options(
      source,
      features={n: str(source / n) for n in ('image', 'audio')},
      optional=('audio',),
      missing='skip',
    )
  )
  none = {'missing': 0, 'bad': 0, 'uncaptioned': 0}
  dropped = {'missing': 1, 'bad': 1, 'uncaptioned': 1}
  assert manifest.coverage == {
    'train': {'listed': 4, 'videos': 1, **dropped, 'streams': {'image': 1, 'audio': 1}},
    'val': {'listed': 2, 'videos': 1, **none, 'missing': 1, 'streams': {'image': 1, 'audio': 0}},
    'test': {'listed': 1, 'videos': 1, **none, 'streams': {'image': 1, 'audio': 0}},
  }
  assert json.loads((source / 'out' / 'manifest.json').read_text())['coverage'] == manifest.coverage


def test_captions_that_the_metrics_split_otherwise(source):
  (source / 'clips.csv').open('a').write('\nv3,salt & pepper,train\nv3,he cannot & sings,train')
  manifest, _ = build(options(source))
  found = manifest.coverage['train']['metric_words']
  assert found == {'captions': 2, 'words': {'&': 2, 'cannot': 1}}
  assert 'metric_words' not in manifest.coverage['val']
  (note,) = metric_word_notes(manifest)
  assert all(text in note for text in ('2 of 6', 'train', '& 2', 'cannot 1'))
  manifest, _ = build(options(source, tokenizer='whitespace', overwrite=True))
  assert metric_word_notes(manifest) == []
