"""Sizes of a config file's data, and those that are assumed."""

import jax
import pytest

from configs import common
from tests import tiny
from vidcap_jax.compilation import data_sizes
from vidcap_jax.data.vocabulary import UNK
from vidcap_jax.objectives.objective import Objective
from vidcap_jax.rewards.references import make_references
from vidcap_jax.training import experiment


@pytest.fixture
def config():
  return experiment.stage_config(tiny.get_config(), 'xe')


def test_sizes_of_a_config_file(config):
  config.data.length_buckets = ()
  sizes = data_sizes.from_config_file('configs/vatex_fusion.py', config)
  assert [stream.name for stream in sizes.streams][:2] == ['image', 'motion']
  assert len(sizes.vocabulary) == 10_000
  assert sizes.split.tokens_per_step is None
  assert sizes.assumed


def test_batches_of_one_length_share_a_number_of_words(config):
  sizes = data_sizes.from_config_file('configs/quickstart.py', config)
  assert sizes.split.tokens_per_step > 0


def test_the_vocabulary_holds_the_words_that_captions_must_have(config):
  config.decode.force = ('piano', 'cat')
  vocabulary = data_sizes.from_config_file('configs/quickstart.py', config).vocabulary
  assert len(vocabulary) == 63
  assert min(vocabulary.index[word] for word in config.decode.force) > UNK


def test_assumed_tables_have_the_form_of_real_ones(config):
  config.data.length_buckets = ()
  with config.unlocked():
    config.objective = common.self_critical()
    config.objective.from_scratch = True
  sizes = data_sizes.from_config_file('configs/quickstart.py', config)
  real = make_references([['w1 w2 w3 w4'] * 3], sizes.vocabulary, count_eos=True)
  assert sizes.tables.sentences.shape[0] == sizes.split.videos
  assert sizes.tables.most_captions == sizes.split.most_captions
  form = [(x.ndim, x.dtype) for x in jax.tree.leaves(sizes.tables)]
  assert form == [(x.ndim, x.dtype) for x in jax.tree.leaves(real)]


def test_other_tables_are_those_of_a_few_made_up_captions(config, monkeypatch):
  def tables(captions, vocabulary):
    return {'counts': jax.numpy.array([len(video) for video in captions])}

  objective = Objective(lambda: None, tables=tables)
  monkeypatch.setattr(data_sizes, 'make_objective', lambda *_: objective)
  sizes = data_sizes.from_config_file('configs/quickstart.py', config)
  assert sizes.tables['counts'].shape == (8,)
