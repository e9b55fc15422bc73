"""The tables give the logits and captions that the other project's code computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from configs import common
from tests.vidcap_jax.checkpoints.pytorch import fixtures
from vidcap_jax import models
from vidcap_jax.checkpoints.pytorch import imagecaptioning, tables
from vidcap_jax.checkpoints.pytorch.imported import Places
from vidcap_jax.checkpoints.pytorch.pickled import load_options
from vidcap_jax.checkpoints.restore import abstract_params
from vidcap_jax.data.vocabulary import BOS, PAD, UNK
from vidcap_jax.decoding.decode import decode
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.errors import DataError
from vidcap_jax.models.captioner import Inputs, bind

WHERE = 'infos.pkl'
# Option of captions there -> changes to the decoding here.
SEARCHES = {'beam': {}, 'beam_avg': {'length_penalty': 1.0}, 'greedy': {'beam': 1}}


def infos_of(name, tmp_path):
  path = tmp_path / WHERE
  path.write_bytes(fixtures.load(name).infos)
  return load_options(path)


@pytest.fixture
def infos(tmp_path):
  return infos_of('updown', tmp_path)


def with_options(infos, **options):
  return {**infos, 'opt': {**infos['opt'], **options}}


def describe(infos, model='', **places):
  return imagecaptioning.describe(infos, model, Places(**places), WHERE)


def build(imported, weights):
  config = common.base()
  with config.unlocked():
    config.model = imported.model
    config.data.standardise = False
    config.decode.update(dict(imported.decode))
  module = models.build(config.model, len(imported.vocabulary))
  shapes = abstract_params(module, imported.streams, config)
  return module, tables.convert(imported.table, weights, shapes, 'model.pth'), config.decode


def inputs_of(fixture, imported):
  names = {stream.name for stream in imported.streams}
  fc, att, mask = fixture.inputs.values()
  features = {'fc': fc, 'att': att[:, None]}
  masks = {'fc': np.ones(len(fc), bool), 'att': mask[:, None] > 0}
  return Inputs(*({n: x for n, x in each.items() if n in names} for each in (features, masks)))


@pytest.mark.parametrize('name', fixtures.NAMES)
def test_logits_and_captions_of_the_original_code(name, tmp_path):
  fixture = fixtures.load(name)
  # Batch normalisation is in the encoder: the searches are those of updown, and long to compile.
  searches = {} if name == 'updown_bn' else SEARCHES
  imported = describe(infos_of(name, tmp_path), regions=5)
  module, params, settings = build(imported, fixture.weights)
  words = imported.vocabulary.words
  L = fixture.captions.shape[1]
  # Row of a word there -> its id here; there is a word for each row but 0.
  vocab = infos_of(name, tmp_path)['vocab']
  ids = np.array([0, *(UNK if w == 'UNK' else words.index(w) for w in vocab.values())])
  targets = np.full((len(fixture.captions), 1, L), PAD, np.int32)
  targets[:, 0, :-1] = ids[fixture.captions[:, 1:]]

  @jax.jit
  def run(params, inputs):
    captioner = bind(module, params)
    memory = captioner.encode(inputs, None, train=False)
    logits = captioner.logits(teacher_forcing(captioner, memory, targets).hidden)[:, :, 0]
    found = {
      search: decode(captioner, memory, L, {**settings, **changes}, jax.random.key(0), None).tokens
      for search, changes in searches.items()
    }
    return jax.nn.log_softmax(jnp.swapaxes(logits, 0, 1)), found

  log_probs, found = jax.device_get(run(params, inputs_of(fixture, imported)))
  eos_then_words = [2, *ids[1:]]
  np.testing.assert_allclose(log_probs[..., eos_then_words], fixture.log_probs, rtol=0, atol=1e-5)
  assert log_probs[..., [PAD, BOS]].max() < -900
  for search, tokens in found.items():
    captions = [imported.vocabulary.decode(t) for t in tokens[:, 0]]
    assert captions == fixture.searches[search], search
    assert len(set(captions)) > 2


# ------------------------------------------------------------------------------ infos


def test_settings_of_the_run(infos):
  made = describe(infos, 'updown', regions=36)
  assert dict(made.model) == {
    'name': 'updown',
    'global_streams': ('fc',),
    'attended_stream': 'att',
    'hidden': 8,
    'embed': 6,
    'project': 8,
    'attention': 5,
    'dropout': 0.5,
  }
  fc, att = made.streams
  assert (fc.name, fc.kind, fc.shape, fc.dtype) == ('fc', 'vector', (4,), 'float32')
  assert (att.name, att.kind, att.shape, att.dtype) == (
    'att', 'regions', (None, None, 3), 'float32',
  )  # fmt: skip
  assert (att.longest, att.most_regions) == (1, 36)
  assert made.layouts == {'att': 'NC'}
  assert made.vocabulary.words[:5] == ('<PAD>', '<BOS>', '<EOS>', '<UNK>', 'a')
  assert 'UNK' not in made.vocabulary.words
  assert (made.vocabulary.max_words, made.max_words) == (7, 7)  # 8 tokens with the end
  assert made.decode == {'method': 'beam', 'beam': 3, 'length_penalty': 0.0, 'min_length': 0}
  assert (made.step, made.notes) == (120, ())


def test_other_streams(infos):
  infos = with_options(infos, fc_feat_size=3)
  made = describe(infos, mean='boxes', attended='boxes', grid=(7, 6))
  (stream,) = made.streams
  assert (stream.kind, stream.shape, made.layouts) == (
    'grid', (None, 7, 6, 3), {'boxes': 'HWC'},
  )  # fmt: skip
  assert made.model['global_streams'] == (made.model['attended_stream'],) == ('boxes',)


def test_sizes_of_a_transformer(tmp_path):
  infos = infos_of('transformer', tmp_path)
  made = describe(infos, attended='cells', grid=(2, 2)).model
  assert (made['streams'], made['region_streams']) == (('cells',), ())
  sizes = ('hidden', 'embed', 'heads', 'feed_forward', 'encoder_layers', 'decoder_layers')
  assert [made[size] for size in sizes] == [8, 8, 2, 12, 1, 2]  # num_layers=2, N_enc=1
  own = with_options(infos, d_model=16, d_ff=20, N_dec=3, num_att_heads=None, dropout=0.3)
  made = describe(own).model
  assert [made[size] for size in sizes] == [16, 16, 8, 20, 1, 3]
  assert (made['streams'], made['region_streams'], made['dropout']) == ((), ('att',), 0.3)


@pytest.mark.parametrize(
  ('options', 'decode', 'note'),
  [
    ({'length_penalty': 'avg_0'}, {'length_penalty': 1.0}, ''),
    ({'length_penalty': 'wu_0.5'}, {'length_penalty': 0.0}, 'length_penalty=wu_0.5'),
    ({'beam_size': 7}, {'beam': 7}, ''),
    ({'decoding_constraint': 1}, {}, 'opt.decoding_constraint=1'),
    ({'remove_bad_endings': 1}, {}, 'opt.remove_bad_endings=1'),
    ({'block_trigrams': 1}, {}, 'opt.block_trigrams=1'),
    ({'group_size': 2}, {}, 'opt.group_size=2'),
    ({'suppress_UNK': 0}, {}, 'opt.suppress_UNK=0'),
    ({'norm_att_feat': 1}, {}, 'opt.norm_att_feat=1.*att'),
    ({'use_box': 1}, {}, 'opt.use_box=1.*att'),
  ],
)
def test_options_of_captions_and_features(options, decode, note, infos):
  made = describe(with_options(infos, **options))
  assert {**made.decode, **decode} == made.decode
  assert len(made.notes) == bool(note)
  if note:
    import re

    assert re.search(note, made.notes[0])


@pytest.mark.parametrize(
  ('options', 'model', 'message'),
  [
    ({'caption_model': 'aoa'}, '', "caption_model is 'aoa'.*updown, transformer"),
    ({}, 'transformer', "'updown', not --model=transformer"),
    ({'use_bn': 2}, '', 'opt.use_bn is 2'),
    ({'logit_layers': 2}, '', 'opt.logit_layers is 2'),
    ({'eos_idx': 102}, '', 'opt.eos_idx is 102'),
    ({'rnn_size': None}, '', 'opt.rnn_size is None'),
    ({'rnn_size': 0}, '', 'opt.rnn_size is 0'),
    ({'rnn_size': '8'}, '', "opt.rnn_size is '8'"),
    ({'max_length': 1}, '', 'opt.max_length is 1'),
    ({'drop_prob_lm': 1}, '', 'opt.drop_prob_lm is 1'),
  ],
)
def test_options_that_cannot_be_imported(options, model, message, infos):
  with pytest.raises(DataError, match=f'{WHERE}.*{message}'):
    describe(with_options(infos, **options), model)


@pytest.mark.parametrize(
  ('changes', 'message'),
  [
    ({'vocab': None}, "'vocab'"),
    ({'opt': [1]}, "'opt'"),
    ({'vocab': {}}, 'vocab'),
    ({'vocab': {'1': 'a', '3': 'b'}}, '1 to 2'),
    ({'vocab': {'1': 'a', 'two': 'b'}}, '1 to 2'),
    ({'vocab': {'1': 'a', '2': 5}}, 'holds 5'),
    ({'vocab': {'1': 'a', '2': 'a'}}, 'duplicate.*a'),
  ],
)
def test_infos_that_cannot_be_imported(changes, message, infos):
  with pytest.raises(DataError, match=f'{WHERE}.*{message}'):
    describe({**infos, **changes})


def test_the_mean_of_features_of_another_size(infos):
  with pytest.raises(DataError, match='fc_feat_size=4.*att_feat_size=3'):
    describe(infos, mean='att')


def test_subwords_are_noted(infos):
  made = describe({**infos, 'vocab': {1: 'play@@', 2: 'ing'}})
  assert '@@' in made.notes[0]
