"""Rewards and the self-critical loss (VATEX 2019, section 2.3; Rennie et al. 2017)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vidcap_jax.objectives.self_critical import policy_loss
from vidcap_jax.rewards import bleu, cider, ngrams, rouge, score
from vidcap_jax.rewards.references import References, as_rows


@pytest.fixture(params=[False, True], ids=['without_eos', 'with_eos'])
def count_eos(request):
  return request.param


def read(oracle, count_eos):
  """Captions (40, L), references (40, R, L) and the oracle's results by name."""
  d = oracle('rewards_int_tokens')
  used = np.arange(d['in/refs'].shape[1]) < d['in/ref_count'][:, None]
  references = np.where(used[..., None], d['in/refs'], 0).astype(np.int32)
  prefix = f'out/{"with" if count_eos else "without"}_eos/'
  results = {k.removeprefix(prefix): v for k, v in d.items() if k.startswith(prefix)}
  sentences = ngrams.sentence_of(jnp.asarray(references), count_eos=count_eos)
  return jnp.asarray(d['in/hyp'], jnp.int32), sentences, results


@pytest.mark.parametrize('videos', [40, 20])
def test_cider_d(oracle, precision, close, count_eos, videos):
  """Document frequencies of all videos, and of the first 20."""
  captions, references, results = read(oracle, count_eos)
  frequencies = ngrams.count(np.asarray(references[:videos]))
  sentences = ngrams.sentence_of(captions, count_eos=count_eos)

  @jax.jit
  def run(sentences, references, frequencies):
    norms = cider.norms(references, frequencies)
    return jax.vmap(cider.cider_d, (0, 0, 0, None))(sentences, references, norms, frequencies)

  found = run(sentences, references, frequencies)
  close(found, results[f'ciderd/df_{"all40" if videos == 40 else "first20"}'])


def test_bleu_and_rouge(oracle, precision, close, count_eos):
  captions, references, results = read(oracle, count_eos)
  sentences = ngrams.sentence_of(captions, count_eos=count_eos)
  close(jax.jit(jax.vmap(bleu.bleu4))(sentences, references), results['bleu4'])
  close(jax.jit(jax.vmap(rouge.rouge_l))(sentences, references), results['rougeL'])


def test_as_training_asks_for_them(oracle, precision, close, count_eos):
  """All at once, of several captions of a video, by the videos' rows."""
  captions, references, results = read(oracle, count_eos)
  frequencies = ngrams.count(np.asarray(references))
  norms = jax.jit(cider.norms)(references, frequencies)
  tables = References(as_rows(references), as_rows(norms), frequencies, *references.shape[1:])
  rows = jnp.array([7, 3, 39], jnp.int32)
  captions = jnp.stack([captions[rows], captions[rows]], axis=1)  # (3, 2, L)
  names = ('cider', 'bleu4', 'rouge_l')
  run = jax.jit(functools.partial(score, names, count_eos=count_eos))
  made = run(captions, tables, rows)
  for name, oracle_name in (
    ('cider', 'ciderd/df_all40'),
    ('bleu4', 'bleu4'),
    ('rouge_l', 'rougeL'),
  ):
    close(made[name], np.repeat(results[oracle_name][rows][:, None], 2, axis=1))


def test_self_critical_loss(oracle, precision, close):
  """Two of the four captions earn what the greedy one does: their loss is exactly 0."""
  d = oracle('vatex_decoder_eq1_5')
  log_prob = jnp.asarray(d['out/temporal/token_log_prob'], precision)
  tokens = jnp.asarray(np.where(d['in/caption_mask'], d['in/captions'], 0), jnp.int32)
  advantage = jnp.asarray(d['scst/reward_sample'] - d['scst/reward_greedy'], precision)
  each = jax.vmap(policy_loss)(log_prob, tokens, advantage)
  close(each, d['scst/loss_sum_per_sequence'])
  assert (each[2:] == 0).all()
  close(policy_loss(log_prob, tokens, advantage) / (tokens != 0).sum(), d['scst/loss_token_mean'])
