"""The data and the rewards of the timed programs."""

import dataclasses

import jax
import numpy as np
import pytest

from benchmarks import programs
from vidcap_jax.data.vocabulary import BOS, EOS, PAD, UNK
from vidcap_jax.errors import UserError

SIZES = programs.Sizes(
  batch=3, frames=4, channels=8, hidden=8, words=30, length=6, references=2, videos=4
)


def test_captions_end_with_eos_and_frequent_words_come_first():
  tokens = programs.captions(SIZES, 2000, 6)
  assert tokens.shape == (2000, 6)
  assert (tokens[:, -1] == EOS).all()
  assert not np.isin(tokens[:, :-1], (PAD, BOS, EOS, UNK)).any()
  counts = np.bincount(tokens[:, :-1].ravel(), minlength=30)[UNK + 1 :]
  assert counts[0] / counts[1] == pytest.approx(2, rel=0.2)  # Zipf's law
  np.testing.assert_array_equal(tokens, programs.captions(SIZES, 2000, 6))


def test_batch_has_the_given_sizes():
  shapes = jax.tree.map(np.shape, programs.batch(SIZES, length=5))
  assert shapes['features'] == {'image': (3, 4, 8)}
  assert shapes['captions'] == (3, 1, 5)


def test_the_model_has_the_given_sizes():
  sizes = dataclasses.replace(SIZES, model='transformer', hidden=128, layers=2)
  model = programs.config(sizes).model
  found = (model.hidden, model.embed, model.heads, model.feed_forward)
  assert (model.name, *found) == ('transformer', 128, 128, 2, 512)
  assert (model.encoder_layers, model.decoder_layers) == (2, 2)
  assert programs.config(SIZES).model.attention == 8
  with pytest.raises(UserError, match='--model=lstm.*transformer'):
    programs.config(dataclasses.replace(SIZES, model='lstm'))


def test_gradients_are_of_one_pass_or_of_steps(monkeypatch):
  used = []
  sizes = dataclasses.replace(SIZES, model='transformer', layers=1)

  def loss(captioner, *_):
    used.append(captioner.teacher_force is not None)
    return jax.numpy.ones(()), jax.numpy.ones(())

  monkeypatch.setattr(programs, 'caption_loss', loss)
  for one_pass in (True, False):
    programs.gradient(sizes, one_pass=one_pass)()
  assert used == [True, False]


@pytest.mark.parametrize(('method', 'hypotheses'), [('greedy', 6), ('beam', 1 + 5 * 5)])
def test_decoding_ends_captions_and_counts_them_to_the_last_word(method, hypotheses):
  """``hypotheses`` that a video's words are computed for: a beam's are equal at the first word."""
  sizes = dataclasses.replace(SIZES, hidden=128, words=3000)
  lengths = np.array([2, 6, 4], np.int32)
  program = programs.decoding(sizes, method, lengths)
  tokens = program.run().tokens[:, 0]
  np.testing.assert_array_equal((tokens != PAD).sum(axis=-1), lengths)
  np.testing.assert_array_equal(tokens[np.arange(3), lengths - 1], [EOS] * 3)
  gates = 4 * 128 * (128 + 2 * 128 + 3 * 128)
  word = 2 * 3 * (gates + 128 * 128 + 128 * 3000)  # of all videos
  assert program.flops == pytest.approx(hypotheses * word, rel=0.1)


def test_products_have_the_sizes_of_the_vocabulary():
  found = programs.products(SIZES)
  assert found['product, vocabulary of a step'].flops == 2 * (3 * 6) * 8 * 30
  assert found['product, vocabulary of a beam'].run().shape == (3 * 5, 30)


def test_host_reward_compares_samples_with_the_references_of_their_video(monkeypatch):
  calls = []

  class Cider:
    def compute_score(self, references, hypotheses):
      calls.append((references, hypotheses))

  monkeypatch.setattr('pycocoevalcap.cider.cider.Cider', Cider)
  programs.reward_on_host(SIZES, samples=2)()
  ((references, hypotheses),) = calls
  assert [len(captions) for captions in hypotheses.values()] == [1] * 6
  assert [len(captions) for captions in references.values()] == [2] * 6
  assert references[0] == references[1] != references[2]
  tokens = programs.captions(SIZES, 3 * 2, 6, seed=1)
  assert references[2] == [' '.join(map(str, row)) for row in tokens[2:4]]
