"""Late fusion: an embedding chooses among the captions of several checkpoints.

Candidates are each run's captions of a video (``decode.n_best`` of them). The video-semantic
embedding ranks them by their cosine similarity to the video; the first of equal ones wins.
"""

import functools
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from flax import linen as nn
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax.checkpoints import init_from, restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.records import VideoSource
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.distributed.mesh import to_devices, to_host
from vidcap_jax.errors import ConfigError
from vidcap_jax.inference.captioning import CaptionerGroup, batches_of, captioner_of
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.models.embedding import own_similarity
from vidcap_jax.models.streams import to_inputs


def fuse(embedding: Restored, runs: Sequence[Restored]) -> CaptionerGroup:
  """A group whose captions are chosen by an embedding.

  Each caption also has ``captions``, all candidates, run after run; ``chosen``, the index of the
  chosen candidate among them; and ``run``, the index of its run.

  Raises:
    ConfigError: the embedding makes captions, or a run makes none.
  """
  if is_captioner(embedding.module):
    raise ConfigError(
      f'{embedding.path} is a checkpoint of model {embedding.config.model.name!r}, which ranks no '
      "captions; fusion needs one of model 'embedding'"
    )
  captioners = [
    captioner_of(run, label=f'captioning, run {i} of {len(runs)}') for i, run in enumerate(runs, 1)
  ]

  def caption(source, ids):
    candidates, run_indices = [], []  # of each video
    for captions in zip(*(captioner(source, ids) for captioner in captioners), strict=True):
      by_run = [c.get('captions') or [_without_id(c)] for c in captions]
      candidates.append([c for several in by_run for c in several])
      run_indices.append([i for i, several in enumerate(by_run) for _ in several])
    chosen = choose(embedding, source, [[c['caption'] for c in video] for video in candidates])
    return [
      {'video_id': video_id, **video[k], 'captions': video, 'chosen': k, 'run': indices[k]}
      for video_id, video, indices, k in zip(ids, candidates, run_indices, chosen)
    ]

  paths = {'embedding': str(embedding.path), 'runs': [str(run.path) for run in runs]}
  return CaptionerGroup((*runs, embedding), caption, {'fusion': paths})


def _without_id(caption: Mapping) -> dict:
  return {key: caption[key] for key in ('caption', 'log_prob')}


def make_chooser(
  config: ConfigDict, module: nn.Module, streams: Sequence[Stream]
) -> jax.stages.Wrapped:
  """A jitted function (params, batch) -> (B,), the index of each video's nearest candidate.

  The batch also has ``tokens`` (B, S, L) of S candidates, and ``is_caption`` (B, S), which is False
  where a video has fewer.

  Args:
    config, module, streams: of the embedding.
  """

  @jax.jit
  def nearest(params, batch):
    call = functools.partial(module.apply, {'params': params})
    inputs = to_inputs(batch, streams, config.data.standardise)
    videos = jnp.asarray(call(inputs, method='embed_videos'))  # (B, H)
    tokens = batch['tokens']  # (B, S, L)
    texts = jnp.asarray(call(tokens, tokens != PAD, method='embed_captions'))  # (B, S, H)
    return jnp.where(batch['is_caption'], own_similarity(videos, texts), -jnp.inf).argmax(axis=-1)

  return nearest


def choose(
  embedding: Restored, source: VideoSource, candidates: Sequence[Sequence[str]]
) -> list[int]:
  """For each video of a source, the index of its nearest candidate; the first of equal ones."""
  nearest = make_chooser(embedding.config, embedding.module, embedding.streams)
  most, chosen = max(map(len, candidates)), [0] * len(candidates)
  for _, rows in batches_of(embedding, source, label='choosing captions'):
    shape = (len(rows['video_index']), most)
    tokens = np.full((*shape, embedding.length), PAD, np.int32)
    is_caption = np.zeros(shape, bool)
    for row, index in enumerate(rows['video_index']):
      for slot, caption in enumerate(candidates[index] if index >= 0 else ()):
        tokens[row, slot] = embedding.vocabulary.encode(caption, embedding.length)
        is_caption[row, slot] = True
    batch = to_devices({**rows, 'tokens': tokens, 'is_caption': is_caption}, embedding.mesh)
    best = nearest(embedding.params, batch)
    for index, k in zip(*to_host((batch['video_index'], best))):
      if index >= 0:
        chosen[index] = int(k)
  return chosen


# ------------------------------------------------------------------------------ as a stage


def prepare(config: ConfigDict, stage: str, workdir: epath.Path, mesh: Mesh) -> dict:
  """The task of a fusion stage: finds its checkpoints. Its evaluation does the rest.

  Raises:
    ConfigError: no runs or no embedding are named.
    DataError: a checkpoint is missing.
  """
  return sources(config, workdir)


def check_named(config: ConfigDict) -> None:
  """ConfigError where ``config.fuse`` names no embedding or no runs."""
  if not (config.fuse.embedding and config.fuse.runs):
    raise ConfigError(
      "a stage with task 'fuse' needs fuse.embedding and fuse.runs, each 'stage:NAME' or a "
      'checkpoint'
    )


def sources(config: ConfigDict, workdir: epath.Path) -> dict:
  """The paths of the checkpoints that ``config.fuse`` names: the embedding's, and the runs'."""
  check_named(config)

  def find(name: str, key: str) -> str:
    path = init_from.source_of(name, workdir)
    return str(restore.find_checkpoint(path, f'config.fuse.{key}'))

  runs = [find(name, 'runs') for name in config.fuse.runs]
  return {'embedding': find(config.fuse.embedding, 'embedding'), 'runs': runs}


def restore_group(paths: Mapping, candidates: int, mesh: Mesh) -> CaptionerGroup:
  """Restores the checkpoints of ``sources``; each run gives the best ``candidates`` of its beam.

  Raises:
    ConfigError: a checkpoint is of another kind, or its beam is too small.
  """
  decode = [f'n_best={candidates}']
  runs = [restore.restore(epath.Path(path), mesh, decode) for path in paths['runs']]
  return fuse(restore.restore(epath.Path(paths['embedding']), mesh), runs)
