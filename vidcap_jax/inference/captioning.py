"""Captions of a data set's videos, from a checkpoint or from several at once."""

import dataclasses
import difflib
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
from vidcap_jax.data.vocabulary import UNK, Vocabulary, tokenize
from vidcap_jax.decoding.beam_banks import by_words
from vidcap_jax.decoding.decode import check_decode, decode
from vidcap_jax.decoding.ensemble import join
from vidcap_jax.decoding.unroll import Captions
from vidcap_jax.distributed.mesh import block, is_main, to_devices, to_host
from vidcap_jax.errors import ConfigError
from vidcap_jax.models.captioner import Needs, bind
from vidcap_jax.models.streams import stream_sizes, to_inputs
from vidcap_jax.progress import progress

# (videos, their ids) -> what ``caption_videos`` makes of them. Ids of earlier videos may stand
# before theirs: samples are drawn by a video's place among the ids.
Caption = Callable[[VideoSource, Sequence[str]], list[dict]]


@dataclasses.dataclass(frozen=True)
class Together:
  """Checkpoints that caption videos together.

  Attributes:
    members: all of them.
    caption: (videos, their ids) -> {video_id, caption, log_prob, …} each.
    report: what metrics.json says of them.
  """

  members: Sequence[Restored]
  caption: Caption
  report: Mapping[str, Any]


def make_decoder(
  module: nn.Module,
  streams: Sequence[Stream],
  vocabulary: Vocabulary,
  config: ConfigDict,
  length: int,
) -> Callable[[Any, Mapping], Captions]:
  """A jitted function (params, batch) -> Captions, as ``config.decode`` says."""
  check_decode(config.decode)
  forced = forced_words(config.decode, vocabulary, length)
  key = jax.random.key(config.seed)

  @jax.jit
  def run(params, batch):
    captioner = bind(module, params)
    memory = captioner.encode(to_inputs(batch, streams, config.data.standardise), None, train=False)
    return decode(captioner, memory, length, config.decode, key, batch['video_index'], forced)

  return run


def forced_words(settings: Mapping, vocabulary: Vocabulary, length: int) -> tuple[int, ...]:
  """The ids of the words that ``decode.force`` wants in every caption, each once.

  Raises:
    ConfigError: one is not a single word, or not in the vocabulary; or they are too many.
  """
  found = []
  for text in settings['force']:
    words = tokenize(text, vocabulary.tokenizer)
    if len(words) != 1:
      raise ConfigError(
        f'decode.force: {text!r} is {len(words)} words to the vocabulary ({", ".join(words)}), and '
        'phrases are not kept together; give one word at a time'
      )
    number = vocabulary.index.get(words[0], UNK)
    if number <= UNK:
      near = difflib.get_close_matches(words[0], vocabulary.words[UNK + 1 :])
      raise ConfigError(
        f'decode.force: {text!r} is not in the vocabulary, so the model cannot say it'
        + (f'; near it: {", ".join(near)}' if near else '')
      )
    found.append(number)
  forced = tuple(dict.fromkeys(found))
  by_words(1, forced, length)  # now, not when it is compiled, too many are found
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

  Where ``run`` makes several captions of a video, they are in ``captions``, each with its
  ``log_prob``, and the first is the video's.
  """
  captions = []
  for _, batch in batches:
    batch = to_devices(batch, mesh)
    made = run(params, batch)
    index, tokens, log_prob = to_host((batch['video_index'], made.tokens, made.log_prob))
    for i, rows, scores in zip(index, tokens, log_prob):
      if i < 0:
        continue
      several = [
        {'caption': vocabulary.decode(t), 'log_prob': float(p)} for t, p in zip(rows, scores)
      ]
      captions.append({'video_id': ids[i], **several[0]})
      if len(several) > 1:
        captions[-1]['captions'] = several
  return captions


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

  With a ``label``, that of a progress line, process 0 tells on stderr how far they are. What is
  done with them is taken to be compiled with the first.
  """
  size = batch_size or config.eval.batch_size
  size += -size % mesh.shape['data']  # rows of the last batch are padded anyway
  sizes, length = stream_sizes(streams, config, needs), max(2, config.data.max_words + 1)
  shape = pipeline.BatchShape(streams, sizes, length, needs.blocks)
  reading = pipeline.Reading(*block(mesh), threads=config.data.threads)
  batches = pipeline.eval_batches(source, vocabulary, shape, size, reading=reading)
  if not label or not is_main():
    return batches
  return progress(batches, len(source), label, each=size, first='compiling')


def batches_of(
  restored: Restored, source: VideoSource, batch_size: int | None = None, label: str = ''
) -> Iterator[tuple[int, dict]]:
  """``eval_batches`` as a checkpoint's model reads them."""
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


def _numbered(batches: Iterable[tuple[int, dict]], first: int) -> Iterator[tuple[int, dict]]:
  """Batches whose videos are counted from ``first``; padding rows stay -1."""
  for step, batch in batches:
    index = batch['video_index']
    yield step, {**batch, 'video_index': np.where(index < 0, index, index + first)}


def captioner_of(restored: Restored, batch_size: int | None = None, label: str = '') -> Caption:
  """A function (videos, their ids) -> one {video_id, caption, log_prob} each, compiled once.

  It tells how far it is where there is a ``label``, see ``eval_batches``.

  Raises:
    ConfigError: the model makes no captions.
  """
  require_captioner(restored)
  about = (restored.module, restored.streams, restored.vocabulary)
  run = make_decoder(*about, restored.config, restored.length)

  def caption(source, ids):
    batches = batches_of(restored, attach(source, restored.key_frames), batch_size, label)
    batches = _numbered(batches, len(ids) - len(source))
    return caption_videos(run, restored.params, batches, ids, restored.vocabulary, restored.mesh)

  return caption


def ensemble_of(
  members: Sequence[Restored],
  weights: Sequence[float] | None = None,
  batch_size: int | None = None,
  label: str = '',
) -> Together:
  """Captions by the mean of the members' probabilities: see ``vidcap_jax.decoding.ensemble``.

  Models and streams may differ; how captions are decoded is what the first says. ``label`` is as of
  ``captioner_of``.

  Raises:
    ConfigError: a model makes no captions, the vocabularies differ, or the weights don't fit.
  """
  first = members[0]
  for member in members:
    require_captioner(member)
    if member.vocabulary.hash != first.vocabulary.hash:
      raise ConfigError(
        'an ensemble needs one vocabulary: that of '
        f'{first.path} has hash {first.vocabulary.hash}, that of {member.path} '
        f'{member.vocabulary.hash}; train them on data sets built with the same vocabulary'
      )
  config, mesh = first.config, first.mesh
  forced = forced_words(config.decode, first.vocabulary, first.length)
  key = jax.random.key(config.seed)
  join([bind(member.module, member.params) for member in members], weights)  # checks the weights

  @jax.jit
  def run(params, batch):
    captioner = join([bind(m.module, p) for m, p in zip(members, params)], weights)
    inputs = [
      to_inputs(rows, m.streams, m.config.data.standardise)
      for m, rows in zip(members, batch['members'])
    ]
    memory = captioner.encode(inputs, None, train=False)
    rows = batch['video_index']
    return decode(captioner, memory, first.length, config.decode, key, rows, forced)

  def caption(source, ids):
    size = batch_size or config.eval.batch_size
    labels = [label, *[''] * len(members[1:])]  # they are read side by side: one tells for all
    each = [
      batches_of(m, attach(source, m.key_frames), size, its) for m, its in zip(members, labels)
    ]
    batches = (
      (step, {'video_index': rows['video_index'], 'members': (rows, *(r for _, r in others))})
      for (step, rows), *others in zip(*each, strict=True)
    )
    numbered = _numbered(batches, len(ids) - len(source))
    params = tuple(m.params for m in members)
    return caption_videos(run, params, numbered, ids, first.vocabulary, mesh)

  paths = [str(member.path) for member in members]
  report = {'checkpoints': paths, 'weights': list(weights) if weights else None}
  return Together(members, caption, {'ensemble': report})
