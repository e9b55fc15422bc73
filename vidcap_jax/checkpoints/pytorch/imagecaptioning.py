"""ImageCaptioning.pytorch (ruotianluo): the tables of its UpDown and its Transformer.

A training there leaves ``model.pth``, a state dict, and ``infos_ID.pkl``, whose entries ``opt``
(the options) and ``vocab`` (row -> word) are read. The models here compute the same functions:

- ``updown``: its two biases of the attention are one here, and those of each LSTM too. Batch
  normalisation of the attended features (use_bn=1) becomes part of their embedding.
- ``transformer``: words have their positions' sines and cosines in alternating channels there, and
  all sines first here, so the decoder's channels are in another order. The encoder's are not.

Biases that are added to all scores of a softmax change nothing and are left out.
"""

import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from vidcap_jax.checkpoints.pytorch.imported import Imported, Places
from vidcap_jax.checkpoints.pytorch.tables import (
  ALL,
  Entry,
  Order,
  Table,
  chosen,
  flat,
  kernel,
  stacked,
  total,
)
from vidcap_jax.checkpoints.pytorch.words import WordRows
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import Vocabulary
from vidcap_jax.errors import DataError

CAPTION_MODELS = {'updown': ('updown', 'topdown'), 'transformer': ('transformer',)}
# Options of captions there -> the value that changes nothing, and what is different here.
_NOT_IMPORTED = {
  'decoding_constraint': (0, 'a word may follow itself here'),
  'remove_bad_endings': (0, 'captions may end in any word here'),
  'block_trigrams': (0, 'decode.no_repeat_ngram=3 forbids trigrams that were used'),
  'group_size': (1, 'decode.groups is diverse beam search'),
  'suppress_UNK': (1, '<UNK> is never written here'),
}
# Options of how features are read there, which the features given here must have been through.
_OF_FEATURES = {
  'norm_att_feat': 'divide each vector of stream {!r} by its length',
  'use_box': 'append the boxes to the vectors of stream {!r}, largest box first',
}


class Options:
  """The options of a training there, read with messages that name the option."""

  def __init__(self, values: Mapping[str, Any], where: str):
    self.values, self.where = values, where

  def number(self, *names: str, default: int | None = None, least: int = 1) -> int:
    """The first of the named options that there is, a whole number."""
    found = next((n for n in names if self.values.get(n) is not None), None)
    value = default if found is None else self.values[found]
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
      raise DataError(
        f'{self.where}: opt.{found or names[0]} is {value!r}; it must be a whole number of at '
        f'least {least}'
      )
    return int(value)

  def rate(self, name: str, default: float) -> float:
    """An option in [0, 1)."""
    value = self.values.get(name, default)
    if not isinstance(value, float | int) or not 0 <= value < 1:
      raise DataError(f'{self.where}: opt.{name} is {value!r}; it must be in [0, 1)')
    return float(value)

  def require(self, name: str, allowed: Sequence) -> Any:
    """An option that must have one of the allowed values; the first is its default."""
    value = self.values.get(name, allowed[0])
    if value not in allowed:
      known = ' or '.join(map(repr, allowed))
      raise DataError(f'{self.where}: opt.{name} is {value!r}; only {known} can be imported')
    return value


def describe(infos: Mapping[str, Any], model: str, places: Places, where: str) -> Imported:
  """The settings and the table of a checkpoint.

  Args:
    infos: the contents of its infos file, see ``pickled.load_options``.
    model: a key of ``CAPTION_MODELS``; '' for the one in the options.
    places: names and form of the streams that its features are read from.
    where: the infos file, for messages.

  Raises:
    DataError: something is missing of the infos, or was trained with what has no equal here.
  """
  for key in ('opt', 'vocab'):
    if not isinstance(infos.get(key), Mapping):
      raise DataError(f'{where}: has no {key!r}; give the infos_ID.pkl of the same training')
  options = Options(infos['opt'], where)
  name = _model_name(options, model)
  for option in ('bos_idx', 'eos_idx', 'pad_idx'):
    options.require(option, (0,))
  options.require('logit_layers', (1,))
  options.require('use_bn', (0, 1))
  rows = WordRows.of(_words(infos['vocab'], where), 0, 'UNK')
  section, table = (_updown if name == 'updown' else _transformer)(options, rows, places)
  streams = _streams(options, name, places)
  length = options.number('max_length', 'seq_length', default=20, least=2)
  try:
    vocabulary = Vocabulary(rows.words, max_words=length - 1)
  except DataError as error:
    raise DataError(f'{where}: {error}') from None
  decode, notes = _decoding(options, places.attended)
  if any(word.endswith('@@') for word in rows.words):
    notes.append("words that end in '@@' are parts of words: captions here keep the mark")
  return Imported(
    model=section,
    streams=streams,
    layouts={places.attended: 'HWC' if all(places.grid) else 'NC'},
    vocabulary=vocabulary,
    decode=decode,
    max_words=length - 1,
    table=table,
    step=infos['iter'] if type(infos.get('iter')) is int and infos['iter'] > 0 else 0,
    notes=tuple(notes),
  )


def _model_name(options: Options, model: str) -> str:
  trained = options.values.get('caption_model')
  for name, caption_models in CAPTION_MODELS.items():
    if trained in caption_models and model in ('', name):
      return name
  raise DataError(
    f'{options.where}: opt.caption_model is {trained!r}'
    + (f', not --model={model}' if model else '')
    + f'; models that can be imported: {", ".join(CAPTION_MODELS)}'
  )


def _words(vocab: Mapping, where: str) -> dict[int, str]:
  """Row -> word; the rows must be 1, 2, … V."""
  try:
    words = {int(row): word for row, word in vocab.items()}
  except (TypeError, ValueError):
    words = {}
  if not words or set(words) != set(range(1, len(vocab) + 1)):
    raise DataError(f'{where}: the keys of vocab are not the numbers 1 to {len(vocab)}')
  if wrong := [word for word in words.values() if not isinstance(word, str)]:
    raise DataError(f'{where}: vocab holds {wrong[0]!r}, which is not a word')
  return words


def _streams(options: Options, name: str, places: Places) -> tuple[Stream, ...]:
  width, cells = options.number('att_feat_size'), places.grid
  att = places.attended
  if all(cells):
    attended = Stream(att, 'grid', (None, *cells, width), 'float32')
  else:
    attended = Stream(att, 'regions', (None, None, width), 'float32', most_regions=places.regions)
  if name == 'transformer':
    return (attended,)
  mean_width = options.number('fc_feat_size')
  if places.mean != att:
    return (Stream(places.mean, 'vector', (mean_width,), 'float32'), attended)
  if mean_width != width:
    raise DataError(
      f'{options.where}: opt.fc_feat_size={mean_width} differs from opt.att_feat_size={width}, so '
      f'the mean of stream {att!r} was not the fc feature; give --fc_stream another name'
    )
  return (attended,)


def _decoding(options: Options, attended: str) -> tuple[dict[str, Any], list[str]]:
  """The section ``decode``, and notes of what is not imported."""
  notes = []
  penalty, _, _ = kind = str(options.values.get('length_penalty') or '').partition('_')
  if penalty not in ('', 'avg'):
    notes.append(f'opt.length_penalty={"".join(kind)}: not available here; captions are ranked by '
                 'their log-probability, decode.length_penalty')  # fmt: skip
  for option, (neutral, what) in _NOT_IMPORTED.items():
    if (value := options.values.get(option, neutral)) != neutral:
      notes.append(f'opt.{option}={value}: not imported; {what}')
  for option, what in _OF_FEATURES.items():
    if options.values.get(option):
      notes.append(f'opt.{option}={options.values[option]}: {what.format(attended)}')
  decode = {
    'method': 'beam',
    'beam': options.number('beam_size', default=1),
    'length_penalty': 1.0 if penalty == 'avg' else 0.0,
    'min_length': 0,  # a caption may be empty there
  }
  return decode, notes


# ------------------------------------------------------------------------------ tables


def _linear(path: str, key: str, inputs: Order = ALL, outputs: Order = ALL) -> Iterator[Entry]:
  yield Entry(f'{path}/kernel', (f'{key}.weight',), kernel(inputs, outputs))
  yield Entry(f'{path}/bias', (f'{key}.bias',), chosen(outputs))


def _attended_embedding(path: str, options: Options) -> Iterator[Entry]:
  """The embedding of attended features, after their batch normalisation if there is one."""
  if not options.values.get('use_bn'):
    yield from _linear(path, 'att_embed.0')
    return
  # (x - mean) scale + bias, and then the linear layer, are one linear layer.
  scale = lambda weight, variance: weight / np.sqrt(variance + 1e-5)  # noqa: E731
  weight, bias = 'att_embed.1.weight', 'att_embed.1.bias'
  norm = {name: f'att_embed.0.{name}' for name in ('weight', 'bias', 'running_mean', 'running_var')}
  yield Entry(
    f'{path}/kernel',
    (weight, norm['weight'], norm['running_var']),
    lambda w, g, v: (w * scale(g, v)).T,
  )
  yield Entry(
    f'{path}/bias',
    (weight, bias, *norm.values()),
    lambda w, b, g, shift, mean, v: b + w @ (shift - mean * scale(g, v)),
  )


def _updown(options: Options, rows: WordRows, places: Places) -> tuple[dict, Table]:
  """The section ``model`` and the table of UpDown."""
  R = options.number('rnn_size')
  section = {
    'name': 'updown',
    'global_streams': (places.mean,),
    'attended_stream': places.attended,
    'hidden': R,
    'embed': options.number('input_encoding_size'),
    'project': R,
    'attention': options.number('att_hid_size'),
    'dropout': options.rate('drop_prob_lm', 0.5),
  }
  first, second = 'core.att_lstm', 'core.lang_lstm'
  biases = lambda key: (f'{key}.bias_ih', f'{key}.bias_hh')  # noqa: E731
  # The first LSTM reads [h2; mean; word] there.
  entries = (
    Entry('words/embedding', ('embed.0.weight',), rows.embedding()),
    *_linear('global_embed', 'fc_embed.0'),
    *_attended_embedding('memory_embed', options),
    Entry('attend/key/kernel', ('ctx2att.weight',), kernel()),
    Entry('attend/key/bias', ('ctx2att.bias', 'core.attention.h2att.bias'), total),
    Entry('attend/query/kernel', ('core.attention.h2att.weight',), kernel()),
    Entry('attend/score', ('core.attention.alpha_net.weight',), flat),
    Entry('lstm1_mean/kernel', (f'{first}.weight_ih',), kernel(slice(R, 2 * R))),
    Entry('lstm1_word/kernel', (f'{first}.weight_ih',), kernel(slice(2 * R, None))),
    Entry(
      'lstm1_state/kernel',
      (f'{first}.weight_ih', f'{first}.weight_hh'),
      stacked(kernel(slice(R)), kernel()),
    ),
    Entry('lstm1_state/bias', biases(first), total),
    Entry(
      'lstm2_state/kernel',
      (f'{second}.weight_ih', f'{second}.weight_hh'),
      stacked(kernel(), kernel()),
    ),
    Entry('lstm2_state/bias', biases(second), total),
    Entry('output/kernel', ('logit.weight',), rows.logits_kernel()),
    Entry('output/bias', ('logit.bias',), rows.logits_bias),
  )
  return section, Table(
    entries, (r'core\.attention\.alpha_net\.bias', r'att_embed\.0\.num_batches_tracked')
  )


def _transformer(options: Options, rows: WordRows, places: Places) -> tuple[dict, Table]:
  """The section ``model`` and the table of the Transformer."""
  D = options.number('d_model', 'input_encoding_size')
  layers = {
    side: options.number(name, 'num_layers') for side, name in (('en', 'N_enc'), ('de', 'N_dec'))
  }
  is_grid = all(places.grid)
  section = {
    'name': 'transformer',
    'streams': (places.attended,) if is_grid else (),
    'region_streams': () if is_grid else (places.attended,),
    'hidden': D,
    'embed': D,
    'heads': options.number('num_att_heads', default=8),
    'feed_forward': options.number('d_ff', 'rnn_size'),
    'encoder_layers': layers['en'],
    'decoder_layers': layers['de'],
    'activation': 'relu',
    'stream_activation': 'relu',
    'stream_positions': False,
    'norm': 'deviation',
    'tied': False,
    'dropout': options.rate('dropout', 0.1),
  }
  order = [*range(0, D, 2), *range(1, D, 2)]
  entries = [
    *_attended_embedding(f'encoder/streams_{places.attended}/project', options),
    *_norm('encoder/norm', 'model.encoder.norm', ALL),
    Entry('words/embedding', ('model.tgt_embed.0.lut.weight',), rows.embedding(order)),
    *_norm('norm', 'model.decoder.norm', order),
    Entry('output/kernel', ('model.generator.proj.weight',), rows.logits_kernel(order)),
    Entry('output/bias', ('model.generator.proj.bias',), rows.logits_bias),
  ]
  for i in range(layers['en']):
    path, key = f'encoder/layers_{i}', f'model.encoder.layers.{i}'
    entries += _attention(f'{path}/attend', f'{key}.self_attn', ALL, ALL)
    entries += _norm(f'{path}/attention_norm', f'{key}.sublayer.0.norm', ALL)
    entries += _feed_forward(path, key, 1, ALL)
  for i in range(layers['de']):
    path, key = f'decoder_{i}', f'model.decoder.layers.{i}'
    entries += _attention(f'{path}/self_attend', f'{key}.self_attn', order, order)
    entries += _norm(f'{path}/self_norm', f'{key}.sublayer.0.norm', order)
    entries += _attention(f'{path}/cross_attend', f'{key}.src_attn', order, ALL)
    entries += _norm(f'{path}/cross_norm', f'{key}.sublayer.1.norm', order)
    entries += _feed_forward(path, key, 2, order)
  key_bias = r'model\.(en|de)coder\.layers\.\d+\.(self|src)_attn\.linears\.1\.bias'
  return section, Table(
    entries, (key_bias, r'model\.tgt_embed\.1\.pe', r'att_embed\.0\.num_batches_tracked')
  )


def _norm(path: str, key: str, order: Order) -> Iterator[Entry]:
  yield Entry(f'{path}/scale', (f'{key}.a_2',), chosen(order))
  yield Entry(f'{path}/bias', (f'{key}.b_2',), chosen(order))


def _attention(path: str, key: str, reads: Order, attends_to: Order) -> Iterator[Entry]:
  """Multi-head attention from channels in the order ``reads`` to channels in another one."""
  yield from _linear(f'{path}/query', f'{key}.linears.0', reads)
  yield Entry(f'{path}/key/kernel', (f'{key}.linears.1.weight',), kernel(attends_to))
  yield from _linear(f'{path}/value', f'{key}.linears.2', attends_to)
  yield from _linear(f'{path}/out', f'{key}.linears.3', outputs=reads)


def _feed_forward(path: str, key: str, sublayer: int, order: Order) -> Iterator[Entry]:
  yield from _linear(f'{path}/feed/inner', f'{key}.feed_forward.w_1', order)
  yield from _linear(f'{path}/feed/out', f'{key}.feed_forward.w_2', outputs=order)
  yield from _norm(f'{path}/feed_norm', f'{key}.sublayer.{sublayer}.norm', order)
