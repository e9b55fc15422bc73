"""Rewards on words against the public scorers, on whole corpora; and how they are asked for."""

import functools
import json
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from vidcap_jax.data.vocabulary import build_vocabulary
from vidcap_jax.errors import ConfigError
from vidcap_jax.rewards import check_rewards, score
from vidcap_jax.rewards.references import make_references

GOLDEN = pathlib.Path(__file__).parents[1] / 'evaluation' / 'golden' / 'metrics_small.json'
SETS = json.loads(GOLDEN.read_text())['sets']
NAMES = ('cider', 'bleu4', 'rouge_l')


def public(captions, references):
  """name -> a score of each video, by the public scorers."""
  gts = {i: list(texts) for i, texts in enumerate(references)}
  res = {i: [caption] for i, caption in enumerate(captions)}
  return {
    'cider': np.asarray(Cider().compute_score(gts, res)[1]),
    'bleu4': np.asarray(Bleu(4).compute_score(gts, res, verbose=0)[1][3]),
    'rouge_l': np.asarray(Rouge().compute_score(gts, res)[1]),
  }


@pytest.mark.parametrize('name', [n for n, s in SETS.items() if len(s['hyps']) > 1])
@pytest.mark.parametrize('min_count', [1, 2])
def test_equal_to_the_public_scorers(name, min_count):
  """Also where most words are rarer than the vocabulary's: they are told apart all the same."""
  tokenised = SETS[name]['tokenised']
  ids = list(tokenised['refs'])
  references = [tokenised['refs'][v] for v in ids]
  vocabulary = build_vocabulary(
    [text for texts in references for text in texts], min_count, 60, 'whitespace'
  )
  # What a model can say: words of the vocabulary.
  captions = [
    ' '.join(w for w in tokenised['hyps'][v].split() if w in vocabulary.index) for v in ids
  ]
  tables = make_references(references, vocabulary, count_eos=False)
  L = max(len(c.split()) for c in captions) + 1
  tokens = jnp.asarray([vocabulary.encode(caption, L) for caption in captions])[:, None]
  rows = jnp.arange(len(ids))
  made = jax.jit(lambda *args: score(NAMES, *args, count_eos=False))(tokens, tables, rows)
  for reward, expected in public(captions, references).items():
    np.testing.assert_allclose(made[reward][:, 0], expected, rtol=1e-4, atol=1e-5)


def test_padding_rows_and_unused_references_change_nothing():
  captions = [['a cat sits', 'a cat'], ['a dog']]
  vocabulary = build_vocabulary(['a cat sits a dog'], 1, 5)
  tables = make_references(captions, vocabulary, count_eos=True)
  more = make_references([*captions[:1], ['a dog']], vocabulary, count_eos=True)
  tokens = jnp.asarray([[vocabulary.encode('a dog')], [vocabulary.encode('a cat')]])
  run = jax.jit(functools.partial(score, NAMES, count_eos=True))
  made = run(tokens, tables, jnp.array([1, -1]))
  same = run(tokens[:1], more, jnp.array([1]))
  for name in NAMES:
    assert np.isfinite(made[name]).all()
    np.testing.assert_array_equal(made[name][:1], same[name])
  # Three of the four orders: there is no 4-gram of three words.
  np.testing.assert_allclose(made['cider'][0, 0], 7.5, rtol=1e-6)


def test_settings():
  check_rewards({'cider': 1.0, 'meteor': 0.5})
  with pytest.raises(ConfigError, match='unknown objective.rewards spice'):
    check_rewards({'spice': 1.0})
  with pytest.raises(ConfigError, match='empty or all zero'):
    check_rewards({'cider': 0.0})
  for weight in (-1.0, float('nan'), float('inf')):
    with pytest.raises(ConfigError, match='objective.rewards.bleu4=.*weights are 0 or more'):
      check_rewards({'cider': 1.0, 'bleu4': weight})
