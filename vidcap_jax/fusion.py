"""Late fusion: of what several checkpoints say of a video, an embedding chooses the nearest.

Candidates are each run's captions (``decode.n_best`` of them); the video-semantic embedding ranks
them by their cosine with the video, and of equally near ones the first wins.
"""

import functools
import pathlib
from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from ml_collections import ConfigDict

from vidcap_jax import restore, start
from vidcap_jax.captioning import Together, captioner_of, eval_batches
from vidcap_jax.data.records import VideoSource
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.errors import ConfigError
from vidcap_jax.features import to_inputs
from vidcap_jax.models.captioner import is_captioner
from vidcap_jax.models.embedding import own_similarity
from vidcap_jax.restore import Restored


def fuse(embedding: Restored, runs: Sequence[Restored]) -> Together:
  """Captions of which each also has ``captions``, all of its candidates, run after run, the chosen
  one's place among them, ``chosen``, and its ``run``.

  Raises:
    ConfigError: the embedding makes captions, or a run makes none.
  """
  if is_captioner(embedding.module):
    raise ConfigError(
      f'{embedding.path} is of model {embedding.config.model.name!r}, which ranks no captions; '
      "fusion chooses by a checkpoint of model 'embedding'"
    )
  captioners = [captioner_of(run) for run in runs]

  def caption(source, ids):
    made = [by_run(source, ids) for by_run in captioners]
    candidates, of_run = [], []
    for said in zip(*made, strict=True):  # of one video, run after run
      several = [one.get('captions') or [_alone(one)] for one in said]
      candidates.append([c for captions in several for c in captions])
      of_run.append([i for i, captions in enumerate(several) for _ in captions])
    chosen = choose(embedding, source, [[c['caption'] for c in each] for each in candidates])
    return [
      {'video_id': video_id, **each[k], 'captions': each, 'chosen': k, 'run': runs_of[k]}
      for video_id, each, runs_of, k in zip(ids, candidates, of_run, chosen)
    ]

  paths = {'embedding': str(embedding.path), 'runs': [str(run.path) for run in runs]}
  return Together((*runs, embedding), caption, {'fusion': paths})


def _alone(made: Mapping) -> dict:
  return {key: made[key] for key in ('caption', 'log_prob')}


def choose(
  embedding: Restored, source: VideoSource, candidates: Sequence[Sequence[str]]
) -> list[int]:
  """Which of its captions is nearest to each video of a source, the first of equally near ones."""
  config, module, streams = embedding.config, embedding.module, embedding.streams

  @jax.jit
  def nearest(params, batch, tokens, there):
    call = functools.partial(module.apply, {'params': params})
    inputs = to_inputs(batch, streams, config.data.standardise)
    videos = jnp.asarray(call(inputs, method='embed_videos'))  # (B, H)
    texts = jnp.asarray(call(tokens, tokens != PAD, method='embed_captions'))  # (B, S, H)
    return jnp.where(there, own_similarity(videos, texts), -jnp.inf).argmax(axis=-1)

  batches = eval_batches(
    source, embedding.vocabulary, streams, module.config.needs, config, embedding.mesh
  )
  most, found = max(map(len, candidates)), [0] * len(candidates)
  for _, batch in batches:
    shape = (len(batch['video_index']), most)
    tokens = np.full((*shape, embedding.length), PAD, np.int32)
    there = np.zeros(shape, bool)
    for row, index in enumerate(batch['video_index']):
      for slot, caption in enumerate(candidates[index] if index >= 0 else ()):
        tokens[row, slot] = embedding.vocabulary.encode(caption, embedding.length)
        there[row, slot] = True
    best = jax.device_get(nearest(embedding.params, batch, tokens, there))
    for index, k in zip(batch['video_index'], best):
      if index >= 0:
        found[index] = int(k)
  return found


# ------------------------------------------------------------------------------ as a stage


def prepare(config: ConfigDict, stage: str, workdir: pathlib.Path, mesh: Mesh) -> dict:
  """The stage's task: finds its checkpoints; its evaluation does the rest.

  Raises:
    ConfigError: no runs or no embedding are named, or a checkpoint is of another kind.
    DataError: no checkpoint there.
  """
  return dict(restored_as(config, workdir, mesh).report['fusion'])


def restored_as(config: ConfigDict, workdir: pathlib.Path, mesh: Mesh) -> Together:
  """The embedding and the runs that ``config.fuse`` names, ready to caption."""
  if not (config.fuse.embedding and config.fuse.runs):
    raise ConfigError(
      "a stage with task 'fuse' needs fuse.embedding and fuse.runs, each 'stage:NAME' or a "
      'checkpoint'
    )
  find = lambda name, key: restore.find_checkpoint(  # noqa: E731
    start.source_of(name, workdir), f'config.fuse.{key}'
  )
  decode = [f'n_best={config.fuse.candidates}']
  runs = [restore.restore(find(name, 'runs'), mesh, decode) for name in config.fuse.runs]
  return fuse(restore.restore(find(config.fuse.embedding, 'embedding'), mesh), runs)
