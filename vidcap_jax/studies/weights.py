"""Attention weights at each word of captions, and what the weights are over."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from vidcap_jax.checkpoints.restore import Restored, require_captioner
from vidcap_jax.data.batch import subsample
from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import Video
from vidcap_jax.data.vocabulary import EOS, PAD, UNK
from vidcap_jax.decoding.decode import encode
from vidcap_jax.decoding.unroll import teacher_forcing
from vidcap_jax.distributed.mesh import to_devices, to_host
from vidcap_jax.errors import ConfigError
from vidcap_jax.inference import captioning
from vidcap_jax.models.attention_axes import Attention, AttentionAxes, places_of, streams_of
from vidcap_jax.models.captioner import bind
from vidcap_jax.models.streams import stream_sizes, to_inputs


@dataclasses.dataclass(frozen=True)
class Explained:
  """A video's caption, and all attention weights at its words.

  Attributes:
    video: with its features.
    words: of the caption, L of them.
    attentions: by name.
    log_prob: of the caption; None for a given one.
  """

  video: Video
  words: tuple[str, ...]
  attentions: Mapping[str, Attention]
  log_prob: float | None = None

  @property
  def caption(self) -> str:
    return ' '.join(self.words)


Weigher = Callable[[Any, Mapping], dict[str, jax.Array]]
Explainer = Callable[
  [Sequence[Video], Mapping[str, str] | Sequence[np.ndarray] | None], list[Explained]
]
Part = tuple[str, AttentionAxes, np.ndarray]  # an attention's name, axes and weights (L, …)


def declared_axes(restored: Restored) -> Mapping[str, AttentionAxes]:
  """The axes of a checkpoint's attentions by name.

  Raises:
    ConfigError: the model makes no captions, or has no attention.
  """
  axes, model = axes_of(restored), restored.module.config
  if not axes:
    settings = {
      key: getattr(model, key) for key in ('variant', 'temporal', 'layers') if hasattr(model, key)
    }
    shown = ', '.join(f'{key}={value!r}' for key, value in settings.items()) or 'these settings'
    raise ConfigError(
      f'{restored.path}: the model {restored.config.model.name!r} with {shown} has no attention to '
      'show; give the checkpoint of another variant or model'
    )
  return axes


def axes_of(restored: Restored) -> Mapping[str, AttentionAxes]:
  """As ``declared_axes``, but {} for a model without attention."""
  require_captioner(restored)
  return getattr(restored.module.config, 'attentions', {})


def make_weigher(restored: Restored) -> Weigher:
  """A jitted function (params, batch) -> name: weights (L, B, S, …) at the batch's captions."""
  config, streams, module = restored.config, restored.streams, restored.module

  @jax.jit
  def weigh(params, batch):
    captioner = bind(module, params)
    memory = encode(captioner, to_inputs(batch, streams, config.data.standardise), config.decode)
    return teacher_forcing(captioner, memory, batch['captions'], attention=True).attention

  return weigh


def read_weights(
  restored: Restored, batches: Iterable[tuple[int, Mapping]], weigh: Weigher | None = None
) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
  """(video index, name -> weights (L, …) at its first caption) for each video of the batches.

  Args:
    restored: the checkpoint.
    batches: of its videos.
    weigh: of ``make_weigher``; None makes one.
  """
  weigh = weigh or make_weigher(restored)
  for _, batch in batches:
    batch = to_devices(batch, restored.mesh)
    index, weights = to_host((batch['video_index'], weigh(restored.params, batch)))
    for row, video in enumerate(index):
      if video >= 0:
        yield int(video), {name: w[:, row, 0] for name, w in weights.items()}


def make_explainer(
  restored: Restored, batch_size: int | None = None, *, heads: bool = False
) -> Explainer:
  """A function (videos, captions) -> their ``Explained``, compiled once.

  Of an attention with several heads the mean of the heads is explained, and with ``heads`` each of
  them too. One to the entries of several streams is explained for each stream.

  The captions are a mapping of video id -> caption; the token ids of each video's caption, EOS
  included; or None for the captions of the checkpoint's decoder. A model without attention has
  captions with no weights.

  Args:
    restored: the checkpoint.
    batch_size: None: ``eval.batch_size`` of its config.
    heads: see above.

  Raises:
    ConfigError: the model makes no captions.
  """
  declared = axes_of(restored)
  weigh = make_weigher(restored)
  decode = captioning.make_decoder(
    restored.module,
    restored.streams,
    restored.vocabulary,
    restored.config,
    restored.length,
    restored.mesh,
  )

  def explain(videos, captions=None):
    source = attach(videos, restored.key_frames)
    batches = list(captioning.batches_of(restored, source, batch_size))
    log_probs: dict[int, float] = {}
    if captions is None:
      batches = [_with_decoded(restored, decode, *each, log_probs) for each in batches]
    else:
      if isinstance(captions, Mapping):
        captions = [_tokens(restored, captions[video.video_id]) for video in videos]
      # Captions of usual lengths have one shape, so that they need one compilation.
      length = max(restored.length, *map(len, captions))
      batches = [(step, _with_captions(batch, captions, length)) for step, batch in batches]
    by_video = {
      int(video): (words, {name: mask[row] for name, mask in batch['masks'].items()})
      for _, batch in batches
      for row, (video, words) in enumerate(zip(batch['video_index'], batch['captions'][:, 0]))
    }
    return [
      _explained(restored, declared, videos[i], weights, *by_video[i], log_probs.get(i), heads)
      for i, weights in read_weights(restored, batches, weigh)
    ]

  return explain


def explain(
  restored: Restored,
  videos: Sequence[Video],
  captions: Mapping[str, str] | None = None,
  *,
  heads: bool = False,
) -> list[Explained]:
  """Captions of videos, each with the weights at its words; see ``make_explainer``."""
  return make_explainer(restored, heads=heads)(videos, captions)


def _explained(
  restored: Restored,
  declared: Mapping[str, AttentionAxes],
  video: Video,
  weights: Mapping[str, np.ndarray],
  tokens: np.ndarray,
  masks: Mapping[str, np.ndarray],
  log_prob: float | None,
  heads: bool,
) -> Explained:
  """A video's caption, from its tokens (L,), with the weights (L, …) at the caption's words."""
  count = int(((tokens != PAD) & (tokens != EOS)).sum())
  words = tuple(restored.vocabulary.words[token] for token in tokens[:count])
  attentions = {
    part: _attention(restored, part, axes, of_part, masks, video)
    for name in sorted(weights, key=lambda name: _order(declared, name))
    for part, axes, of_part in _parts(name, declared[name], weights[name][:count], masks, heads)
  }
  return Explained(video, words, attentions, log_prob)


def _parts(
  name: str, axes: AttentionAxes, weights: np.ndarray, masks: Mapping[str, np.ndarray], heads: bool
) -> Iterator[Part]:
  """The attentions that are shown of one: the mean of its heads, and of each stream its entries."""
  if 'heads' in axes.axes:
    at = 1 + axes.axes.index('heads')
    rest = dataclasses.replace(
      axes, axes=tuple(axis for axis in axes.axes if axis != 'heads'), names=()
    )
    yield from _parts(name, rest, weights.mean(axis=at), masks, heads)
    for number, head in enumerate(axes.names if heads else ()):
      yield from _parts(f'{name}, {head}', rest, weights.take(number, axis=at), masks, heads)
  elif 'entries' in axes.axes:
    batch_masks = {stream: mask[None] for stream, mask in masks.items()}
    of_streams = [(part, weights[..., at]) for part, at in streams_of(axes, batch_masks)]
    if len(of_streams) > 1:
      shares = np.stack([of_stream.sum(axis=-1) for _, of_stream in of_streams], axis=-1)
      yield f'{name} by stream', AttentionAxes(('branches',), names=axes.streams), shares
    for part, of_stream in of_streams:
      if part.axes:
        yield (name if len(of_streams) == 1 else f'{part.stream}/{name}'), part, of_stream
  else:
    yield name, axes, weights


def unknown_words(restored: Restored, caption: str) -> list[str]:
  """The words of a caption that the checkpoint's vocabulary lacks."""
  index = restored.vocabulary.index
  return [w for w in restored.vocabulary.tokenize(caption) if index.get(w, UNK) <= UNK]


def _order(declared: Mapping[str, AttentionAxes], name: str) -> tuple[bool, int]:
  """The order of declaration, but attention to words comes last."""
  return declared[name].axes == ('words',), list(declared).index(name)


def _with_decoded(
  restored: Restored, decode, step: int, batch: Mapping, log_probs: dict[int, float]
) -> tuple[int, dict]:
  """The batch with the best decoded captions; fills in their log-probabilities by video."""
  captions = decode(restored.params, to_devices(batch, restored.mesh))
  tokens, scores = to_host((captions.tokens, captions.log_prob))
  log_probs |= {int(v): float(p) for v, p in zip(batch['video_index'], scores[:, 0]) if v >= 0}
  return step, {**batch, 'captions': np.asarray(tokens[:, :1])}


def _tokens(restored: Restored, caption: str) -> np.ndarray:
  """The token ids of a caption of any length, EOS included."""
  length = len(restored.vocabulary.tokenize(caption)) + 1
  return restored.vocabulary.encode(caption, length)


def _with_captions(batch: Mapping, tokens: Sequence[np.ndarray], length: int) -> dict:
  """The batch with one caption a video, padded to a length."""
  captions = np.full((len(batch['video_index']), 1, length), PAD, np.int32)
  for row, video in enumerate(batch['video_index']):
    if video >= 0:
      captions[row, 0, : len(tokens[video])] = tokens[video]
  return {**batch, 'captions': captions}


def _attention(
  restored: Restored,
  name: str,
  axes: AttentionAxes,
  weights: np.ndarray,
  masks: Mapping[str, np.ndarray],
  video: Video,
) -> Attention:
  """One attention of a video, from its stored weights (L, …) and the masks of its batch row."""
  batch_masks = {stream: mask[None] for stream, mask in masks.items()}
  places = places_of(batch_masks, axes.stream)
  weights = weights.reshape(len(weights), *axes.shape(weights.shape[1:], places))
  rows, grid = np.zeros(0, int), None
  if 'words' in axes.axes:
    weights = weights[:, : len(weights)]
  if axes.stream:
    stream = next(s for s in restored.streams if s.name == axes.stream)
    mask = masks[axes.stream].reshape(len(masks[axes.stream]), -1)  # (T, N)
    if 'places' in axes.axes and stream.kind == 'grid':
      _, grid_rows, columns, _ = stream.shape
      grid = (int(grid_rows or 1), int(columns or 1))
    elif 'places' in axes.axes:
      weights = _without_padding(weights, 1 + axes.axes.index('places'), mask.max(axis=0))
    if 'places' in axes.axes and not axes.frames:
      rows = _rows(restored, axes.stream, video)
    if 'frames' in axes.axes:
      weights = _without_padding(weights, 1 + axes.axes.index('frames'), mask.max(axis=1))
      frames = weights.shape[1 + axes.axes.index('frames')]
      axes = _with_frames(restored, axes, frames, video)
      rows = _rows(restored, axes.stream, video)
  return Attention(name, axes, weights, rows, grid)


def _with_frames(
  restored: Restored, axes: AttentionAxes, frames: int, video: Video
) -> AttentionAxes:
  """The axes with a stream that has so many frames, where streams of several lengths are joined."""
  names = [axes.stream, *(s.name for s in restored.streams if s.kind == 'sequence')]
  fitting = (name for name in names if len(_rows(restored, name, video)) >= frames)
  return dataclasses.replace(axes, stream=next(fitting, axes.stream))


def _without_padding(weights: np.ndarray, axis: int, valid: np.ndarray) -> np.ndarray:
  """Cuts an axis after its last entry that is valid or has a weight."""
  others = tuple(i for i in range(weights.ndim) if i != axis)
  used = np.asarray(weights.any(axis=others))
  used[: len(valid)] |= valid[: len(used)]
  return weights.take(np.arange(1 + np.flatnonzero(used).max(initial=0)), axis)


def _rows(restored: Restored, name: str, video: Video) -> np.ndarray:
  """Which rows of a stream's stored features are the frames of a batch."""
  needs = restored.module.config.needs
  size = stream_sizes(restored.streams, restored.config, needs)[name][0]
  return subsample(len(video.features[name]), size, needs.blocks.get(name, 1))
