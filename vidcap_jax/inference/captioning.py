"""Captions of a data set's videos, from a checkpoint or from several at once."""

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints.restore import Restored, require_captioner
from vidcap_jax.data import pipeline
from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import VideoSource
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import UNK, Vocabulary
from vidcap_jax.decoding.beam_banks import by_words
from vidcap_jax.decoding.decode import check_decode, check_pass, decode, encode
from vidcap_jax.decoding.ensemble import join
from vidcap_jax.decoding.unroll import Captions
from vidcap_jax.distributed.cpu_products import decoder_options
from vidcap_jax.distributed.mesh import (
  batch_sharded_over,
  block,
  is_main,
  to_devices,
  to_host,
)
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Needs, bind
from vidcap_jax.models.streams import stream_sizes, to_inputs
from vidcap_jax.progress import progress

# (videos, ids) -> captions, as ``caption_videos`` returns them. The ids are those of the videos,
# and before them may come ids of earlier videos: sampling depends on a video's place in the list.
CaptionFn = Callable[[VideoSource, Sequence[str]], list[dict]]


@dataclasses.dataclass(frozen=True)
class CaptionerGroup:
  """Several checkpoints that caption videos together: an ensemble or late fusion.

  Attributes:
    members: the checkpoints.
    caption: captions videos with them.
    report: their entry in metrics.json.
  """

  members: Sequence[Restored]
  caption: CaptionFn
  report: Mapping[str, Any]


def make_decoder(
  module: nn.Module,
  streams: Sequence[Stream],
  vocabulary: Vocabulary,
  config: ConfigDict,
  length: int,
  mesh: Mesh | None = None,
) -> jax.stages.Wrapped:
  """``decoder_fn``, jitted; part of another program must be ``decoder_fn`` itself."""
  run = decoder_fn(module, streams, vocabulary, config, length, mesh)
  return jax.jit(run, compiler_options=decoder_options(mesh, module))


def decoder_fn(
  module: nn.Module,
  streams: Sequence[Stream],
  vocabulary: Vocabulary,
  config: ConfigDict,
  length: int,
  mesh: Mesh | None = None,
) -> Callable[[Any, Mapping], Captions]:
  """A function (params, batch) -> Captions that decodes with ``config.decode``.

  Batches are sharded over ``mesh``, or are all on one device. Their entry ``decode``, if they have
  one, holds values in place of some settings, see ``decode``.
  """
  check_decode(config.decode)
  check_pass(config.decode, module)
  forced = forced_words(config.decode, vocabulary, length)
  key = jax.random.key(config.seed)

  def run(params, batch):
    captioner, rows = bind(module, params), batch['video_index']
    inputs = to_inputs(batch, streams, config.data.standardise)
    with batch_sharded_over(mesh):
      memory = encode(captioner, inputs, config.decode)
      return decode(captioner, memory, length, _settings(config, batch), key, rows, forced)

  return run


def _settings(config: ConfigDict, batch: Mapping) -> Mapping:
  """The decoding settings of a config, with those values that a batch has in their place."""
  return {**config.decode, **batch['decode']} if 'decode' in batch else config.decode


def forced_words(settings: Mapping, vocabulary: Vocabulary, length: int) -> tuple[int, ...]:
  """The ids of the words that ``decode.force`` requires in every caption, without duplicates.

  Raises:
    ConfigError: an item is not a single word, or not in the vocabulary; or there are too many.
  """
  word_ids = []
  for text in settings['force']:
    words = vocabulary.tokenize(text)
    if len(words) != 1:
      raise ConfigError(
        f'decode.force: {text!r} is {len(words)} words in the vocabulary ({", ".join(words)}); '
        'give one word at a time, as phrases are not kept together'
      )
    word_id = vocabulary.index.get(words[0], UNK)
    if word_id <= UNK:
      near = difflib.get_close_matches(words[0], vocabulary.words[UNK + 1 :])
      raise ConfigError(
        f'decode.force: {text!r} is not in the vocabulary'
        + (f'; similar words: {", ".join(near)}' if near else '')
      )
    word_ids.append(word_id)
  forced = tuple(dict.fromkeys(word_ids))
  by_words(1, forced, length)  # raises now, rather than at compilation, if there are too many
  return forced


def caption_videos(
  run: Callable[[Any, Mapping], Captions],
  params: Any,
  batches: Iterable[tuple[int, Mapping]],
  ids: Sequence[str],
  vocabulary: Vocabulary,
  mesh: Mesh,
) -> list[dict]:
  """One {video_id, caption, log_prob} for each video of the batches, in their order.

  If ``run`` decodes several captions of a video, ``captions`` lists all of them, each with its
  ``log_prob``; the first is also the video's ``caption``.
  """
  captions = []
  for _, batch in batches:
    batch = to_devices(batch, mesh)
    decoded = run(params, batch)
    index, tokens, log_prob = to_host((batch['video_index'], decoded.tokens, decoded.log_prob))
    for i, rows, scores in zip(index, tokens, log_prob):
      if i < 0:  # padding
        continue
      candidates = [
        {'caption': vocabulary.decode(t), 'log_prob': float(p)} for t, p in zip(rows, scores)
      ]
      captions.append({'video_id': ids[i], **candidates[0]})
      if len(candidates) > 1:
        captions[-1]['captions'] = candidates
  return captions


def eval_rows(config: ConfigDict, mesh: Mesh, batch_size: int | None = None) -> int:
  """B of the batches that are captioned: a multiple of the devices that they are split over."""
  size = batch_size or config.eval.batch_size
  return size + -size % mesh.shape['data']  # no cost: the last batch is padded anyway


def eval_length(config: ConfigDict) -> int:
  """L of the captions of these batches, which are not used."""
  return max(2, config.data.max_words + 1)


def eval_batches(
  source: VideoSource,
  vocabulary: Vocabulary,
  streams: Sequence[Stream],
  needs: Needs,
  config: ConfigDict,
  mesh: Mesh,
  batch_size: int | None = None,
  label: str = '',
) -> Iterator[tuple[int, dict]]:
  """Batches over every video of a source, this process's rows of each.

  With a ``label``, process 0 shows progress under it on stderr; the first batch is assumed to
  trigger compilation.
  """
  size = eval_rows(config, mesh, batch_size)
  sizes = stream_sizes(streams, config, needs)
  shape = pipeline.BatchShape(streams, sizes, eval_length(config), needs.blocks)
  reading = pipeline.Reading(*block(mesh), threads=config.data.threads)
  batches = pipeline.eval_batches(source, vocabulary, shape, size, reading=reading)
  if not label or not is_main():
    return batches
  return progress(batches, len(source), label, each=size, first='compiling')


def batches_of(
  restored: Restored, source: VideoSource, batch_size: int | None = None, label: str = ''
) -> Iterator[tuple[int, dict]]:
  """``eval_batches`` for a checkpoint's model."""
  return eval_batches(
    source,
    restored.vocabulary,
    restored.streams,
    restored.module.config.needs,
    restored.config,
    restored.mesh,
    batch_size,
    label,
  )


def _offset_index(batches: Iterable[tuple[int, dict]], first: int) -> Iterator[tuple[int, dict]]:
  """The batches with ``video_index`` counted from ``first``; padding rows stay -1."""
  for step, batch in batches:
    index = batch['video_index']
    yield step, {**batch, 'video_index': np.where(index < 0, index, index + first)}


def captioner_of(restored: Restored, batch_size: int | None = None, label: str = '') -> CaptionFn:
  """A function that captions videos with one checkpoint, compiled once.

  With a ``label`` it shows progress, see ``eval_batches``.

  Raises:
    ConfigError: the model makes no captions.
  """
  require_captioner(restored)
  run = make_decoder(
    restored.module,
    restored.streams,
    restored.vocabulary,
    restored.config,
    restored.length,
    restored.mesh,
  )

  def caption(source, ids):
    batches = batches_of(restored, attach(source, restored.key_frames), batch_size, label)
    batches = _offset_index(batches, len(ids) - len(source))
    return caption_videos(run, restored.params, batches, ids, restored.vocabulary, restored.mesh)

  return caption


def check_ensemble(members: Sequence[Restored], weights: Sequence[float] | None = None) -> None:
  """Checks that checkpoints can caption together.

  Raises:
    ConfigError: a model makes no captions, the vocabularies differ, or the weights don't fit.
  """
  first = members[0]
  for member in members:
    require_captioner(member)
    if member.vocabulary.hash != first.vocabulary.hash:
      raise ConfigError(
        f'an ensemble needs one vocabulary: {first.path} has hash {first.vocabulary.hash}, '
        f'{member.path} {member.vocabulary.hash}; train them on data sets built with the same '
        'vocabulary'
      )
  if first.config.decode.get('pass', 'last') != 'last':
    raise ConfigError('decode.pass=first: not for an ensemble; caption with one checkpoint')
  join([bind(member.module, member.params) for member in members], weights)


def make_ensemble_decoder(
  members: Sequence[Restored], weights: Sequence[float] | None = None
) -> jax.stages.Wrapped:
  """As ``make_decoder``: (params of each member, a batch of ``ensemble_batches``) -> Captions.

  Raises:
    ConfigError: as ``check_ensemble``, or words to force that don't fit.
  """
  check_ensemble(members, weights)
  first = members[0]
  config, mesh = first.config, first.mesh
  forced = forced_words(config.decode, first.vocabulary, first.length)
  key = jax.random.key(config.seed)
  options = decoder_options(mesh, *(member.module for member in members))

  @functools.partial(jax.jit, compiler_options=options)
  def run(params, batch):
    captioner = join([bind(m.module, p) for m, p in zip(members, params)], weights)
    inputs = [
      to_inputs(rows, m.streams, m.config.data.standardise)
      for m, rows in zip(members, batch['members'])
    ]
    rows = batch['video_index']
    with batch_sharded_over(mesh):
      memory = captioner.encode(inputs, None, train=False)
      return decode(captioner, memory, first.length, _settings(config, batch), key, rows, forced)

  return run


def ensemble_batches(
  members: Sequence[Restored], source: VideoSource, size: int, label: str = ''
) -> Iterator[tuple[int, dict]]:
  """``batches_of`` each member, read in step with each other; one shows progress for all."""
  batches_by_member = [
    batches_of(member, attach(source, member.key_frames), size, '' if i else label)
    for i, member in enumerate(members)
  ]
  for (step, rows), *others in zip(*batches_by_member, strict=True):
    members_rows = (rows, *(r for _, r in others))
    yield step, {'video_index': rows['video_index'], 'members': members_rows}


def ensemble_of(
  members: Sequence[Restored],
  weights: Sequence[float] | None = None,
  batch_size: int | None = None,
  label: str = '',
) -> CaptionerGroup:
  """Captions by the mean of the members' probabilities: see ``vidcap_jax.decoding.ensemble``.

  Models and streams may differ; the first member's settings decide how captions are decoded.
  ``label`` is as for ``captioner_of``.

  Raises:
    ConfigError: as ``make_ensemble_decoder``.
  """
  run = make_ensemble_decoder(members, weights)
  first = members[0]

  def caption(source, ids):
    size = batch_size or first.config.eval.batch_size
    batches = ensemble_batches(members, source, size, label)
    numbered = _offset_index(batches, len(ids) - len(source))
    params = tuple(m.params for m in members)
    return caption_videos(run, params, numbered, ids, first.vocabulary, first.mesh)

  paths = [str(member.path) for member in members]
  report = {'checkpoints': paths, 'weights': list(weights) if weights else None}
  return CaptionerGroup(members, caption, {'ensemble': report})


def caption_fn(
  members: Sequence[Restored],
  weights: Sequence[float] | None = None,
  batch_size: int | None = None,
) -> CaptionFn:
  """``captioner_of`` for one checkpoint, ``ensemble_of`` for several."""
  if len(members) > 1:
    return ensemble_of(members, weights, batch_size).caption
  return captioner_of(members[0], batch_size)
