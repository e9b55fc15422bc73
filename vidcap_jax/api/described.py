"""The text that shows a captioner: models, streams, vocabulary, decoding, checkpoints."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from vidcap_jax.api.decoding import METHOD_OF
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.schema import Stream

# Decoding settings that change nothing.
_NEUTRAL = {
  'n_best': 1,
  'groups': 1,
  'force': (),
  'length_penalty': 0.0,
  'min_length': 1,
  'no_repeat_ngram': 0,
  'temperature': 1.0,
  'top_k': 0,
  'top_p': 1.0,
}


def captioner_text(
  members: Sequence[Restored], streams: Iterable[Stream], scores: Sequence[str]
) -> str:
  """A few lines that describe a captioner.

  Args:
    members: its checkpoints.
    streams: all streams that they read.
    scores: ``score_text`` of each member.
  """
  first = members[0]
  lines = [('model', _model_text(member)) for member in members]
  lines += [('stream', _stream_text(stream)) for stream in streams]
  lines.append(('vocabulary', f'{len(first.vocabulary)} words'))
  lines.append(('decoding', decode_text(first.config.decode)))
  lines += [('checkpoint', f'{m.path}, {score}') for m, score in zip(members, scores, strict=True)]
  return '\n'.join(['Captioner(', *(f'  {name}: {text}' for name, text in lines), ')'])


def score_text(restored: Restored) -> str:
  """The step of a checkpoint, and the score that it was saved with."""
  score = checkpoint.score_of(restored.path)
  text = f'{restored.config.eval.metric} {score:.4f}' if math.isfinite(score) else 'no score'
  return f'step {restored.path.name}, {text}'


def decode_text(settings: Mapping[str, Any]) -> str:
  """The decoding settings that change something, as keyword arguments of ``caption``."""
  method = settings['method']
  shown = {'method': method}
  for key, value in settings.items():
    read = METHOD_OF.get(key, method) == method and (key != 'diversity' or settings['groups'] > 1)
    plain = tuple(value) if isinstance(value, list | tuple) else value
    if read and key != 'method' and plain != _NEUTRAL.get(key):
      shown['captions' if key == 'n_best' else key] = plain
  return ', '.join(f'{key}={value!r}' for key, value in shown.items())


def _model_text(restored: Restored) -> str:
  variant = restored.config.model.get('variant')
  return restored.config.model.name + (f', variant {variant}' if variant else '')


def _stream_text(stream: Stream) -> str:
  made_by = f', extractor {stream.extractor}' if stream.extractor else ''
  optional = ', optional' if stream.optional else ''
  return f'{stream.name}, {stream.kind} {stream.axes}{made_by}{optional}'
