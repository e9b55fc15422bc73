"""What ``GET /v1/model`` answers: the model, what it reads, and what requests may ask for."""

import dataclasses
import math
import pathlib
from typing import Any

from vidcap_jax import __version__
from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.schema import Stream
from vidcap_jax.serving import fields, media
from vidcap_jax.serving.service import Service


def model(service: Service) -> dict[str, Any]:
  """The description, without a path of the server."""
  programs, limits = service.programs, service.limits
  first = programs.members[0]
  provenance = service.source.provenance
  return {
    'name': first.config.model.name,
    'variant': first.config.model.get('variant') or None,
    'version': __version__,
    'checkpoints': [_checkpoint(member) for member in programs.members],
    'data_set': pathlib.PurePath(first.config.data.dir).name or None,
    'streams': [_stream(stream) for stream in (*provenance.streams, *provenance.alignment_streams)],
    'reads_files': service.reads_files,
    'file_types': list(media.FILE_TYPES) if service.reads_files else [],
    'vocabulary_size': len(first.vocabulary),
    'attention': programs.has_attention,
    'decoding': {
      'methods': list(programs.methods),
      'beams': list(programs.beams),
      'default': fields.defaults(programs),
    },
    'limits': {
      'upload_bytes': limits.upload_bytes,
      'files': limits.files,
      'clip_seconds': limits.clip_seconds,
      'pixels': limits.pixels,
      'beam': programs.beams[-1],
      'captions': programs.captions,
      'upload_seconds': limits.upload_seconds,
      'decoding_seconds': limits.decoding_seconds,
    },
  }


def _checkpoint(member: Restored) -> dict[str, Any]:
  score = checkpoint.score_of(member.path)
  is_scored = math.isfinite(score)
  return {
    'stage': member.path.parent.name,
    'step': int(member.path.name),
    'metric': member.config.eval.metric if is_scored else None,
    'score': score if is_scored else None,
  }


def _stream(stream: Stream) -> dict[str, Any]:
  names = ('name', 'kind', 'extractor', 'optional')
  shown = {name: value for name, value in dataclasses.asdict(stream).items() if name in names}
  return {**shown, 'shape': list(stream.shape)}
