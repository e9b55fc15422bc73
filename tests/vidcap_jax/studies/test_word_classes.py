"""Counts of words by class, and entropies of weights."""

import collections
import json

import numpy as np
import pytest

from vidcap_jax.data.records import Video
from vidcap_jax.models.attention_axes import AttentionAxes
from vidcap_jax.studies import word_classes
from vidcap_jax.studies.weights import Attention, Explained
from vidcap_jax.studies.word_classes import Tally

NO_ROWS = np.zeros(0, int)


def attention(axes, weights, **options):
  stream = 'image' if {'frames', 'places'} & {*axes} else ''
  return Attention('a', AttentionAxes(axes, stream, **options), np.asarray(weights), NO_ROWS)


def test_entropy_of_even_and_single_weights():
  even = np.full((1, 4), 0.25)
  single = np.eye(4)[:1]
  for axes, shape in (
    (('frames',), (4,)),
    (('frames', 'places'), (2, 2)),
    (('picks', 'frames'), (1, 4)),
  ):
    found = word_classes.entropies(
      attention(axes, np.concatenate([even, single]).reshape(2, *shape))
    )
    np.testing.assert_allclose(found, [[np.log(4), 1], [0, 0]], atol=1e-12)


def test_entropy_of_picks_is_their_mean():
  picks = np.stack([np.full(4, 0.25), np.eye(4)[0]])[None]
  found = word_classes.entropies(attention(('picks', 'frames'), picks))
  np.testing.assert_allclose(found, [[np.log(4) / 2, 0.5]])


def test_no_weights_have_no_entropy():
  assert np.isnan(word_classes.entropies(attention(('frames',), np.zeros((1, 4))))[0, 1])
  assert np.isnan(word_classes.entropies(attention(('frames',), np.ones((1, 1))))[0, 1])


def test_attention_to_words_is_compared_with_the_words_so_far():
  found = word_classes.entropies(attention(('words',), [[1.0, 0, 0], [0.5, 0.5, 0], [0.5, 0.5, 0]]))
  np.testing.assert_allclose(found[1:, 1], [1, np.log(2) / np.log(3)])


def test_top_words_without_the_commonest():
  words = collections.Counter({(f'w{i:02}', 'noun'): 100 - i for i in range(30)})
  words |= collections.Counter({('w10', 'verb'): 200, ('the', 'other'): 500})
  top = word_classes.top_words(words)
  # w10 comes first, as it is a verb more often; five are dropped.
  assert [word for word, _, _ in top] == [f'w{i:02}' for i in range(4, 25) if i != 10]
  assert len(top) == word_classes.SHOWN


def test_shares_and_layers_by_class():
  layers = attention(('layers',), [[0.8, 0.2], [0.1, 0.9], [0.3, 0.7]], names=('pool4', 'pool5'))
  tally = Tally()
  tally.add(
    Explained(Video('v', (), {}), ('dog', 'runs', 'ball'), {'layer': layers}),
    ['noun', 'verb', 'noun'],
  )
  result = word_classes.summarise(tally)
  assert result['classes']['noun'] == {'count': 2, 'share': pytest.approx(2 / 3)}
  assert result['classes']['verb']['share'] == pytest.approx(1 / 3)
  assert result['classes']['other']['share'] is None
  by_class = result['attentions']['layer']
  np.testing.assert_allclose(by_class['noun']['weights'], [0.55, 0.45])
  np.testing.assert_allclose(by_class['verb']['weights'], [0.1, 0.9])
  assert set(by_class) == {'noun', 'verb'}
  text = word_classes.table('run', result, {'layer': ('pool4', 'pool5')})
  assert 'noun 66.7%' in text
  assert '0.10  0.90' in text


def test_the_command(tiny_run, tmp_path, capsys):
  arguments = ['--split=val', f'--json={tmp_path}/w.json', f'--plot={tmp_path}/w.png']
  word_classes.main([f'--checkpoint={tiny_run}', *arguments])
  data = json.loads((tmp_path / 'w.json').read_text())
  (result,) = data['checkpoints'].values()
  assert data['tagger'].startswith('HanTa ')
  assert result['captions'] == 3
  assert sum(found['count'] for found in result['classes'].values()) > 0
  assert 0 < result['attentions']['temporal']['noun']['share_of_largest'] <= 1
  assert (tmp_path / 'w.png').read_bytes().startswith(b'\x89PNG')
  assert 'temporal' in capsys.readouterr().out


@pytest.mark.parametrize(
  ('arguments', 'named'),
  [
    (['--split=nowhere'], 'nowhere.*val'),
    (['--plot=a.xyz'], 'xyz'),
  ],
)
def test_what_is_refused(tiny_run, arguments, named):
  with pytest.raises(SystemExit, match=f'error: .*{named}'):
    word_classes.main([f'--checkpoint={tiny_run}', *arguments])


def test_layers_are_drawn_beside_words_and_entropies(tmp_path):
  branch = attention(('branches',), [[0.5, 0.5]] * 2, names=('ST', 'TS'))
  tally = Tally()
  tally.add(Explained(Video('v', (), {}), ('$dog', 'runs'), {'branch': branch}), ['noun', 'verb'])
  result = word_classes.summarise(tally)
  names = {'branch': ('ST', 'TS')}
  word_classes.plot({'a': result, 'b': result}, names, tmp_path / 'a.png')
  assert (tmp_path / 'a.png').is_file()


def test_few_words_and_equal_axes(monkeypatch, tmp_path):
  results = {}
  for label, words in (('a', ('dog', 'runs')), ('b', ('dog', 'ball'))):
    tally = Tally()
    tally.add(Explained(Video('v', (), {}), words, {}), ['noun', ('verb', 'noun')[label == 'b']])
    results[label] = word_classes.summarise(tally)
  pictures = []
  make = word_classes.figure
  monkeypatch.setattr(word_classes, 'figure', lambda **s: pictures.append(make(**s)) or pictures[0])
  word_classes.plot(results, {}, tmp_path / 'a.png')
  panels = pictures[0].axes
  assert 'too few words' in panels[0].texts[0].get_text()
  assert panels[1].get_ylim() == panels[4].get_ylim()


def test_captions_without_attention_are_counted_and_drawn(tmp_path):
  tally = Tally()
  tally.add(Explained(Video('v', (), {}), ('dog', 'runs'), {}), ['noun', 'verb'])
  result = word_classes.summarise(tally)
  assert result['attentions'] == {}
  word_classes.plot({'a': result}, {}, tmp_path / 'a.png')
  assert (tmp_path / 'a.png').is_file()


def test_labels():
  assert word_classes.labels_of(['runs/a', 'runs/b']) == ['a', 'b']
  assert word_classes.labels_of(['x/a', 'y/a']) == ['x/a', 'y/a']
