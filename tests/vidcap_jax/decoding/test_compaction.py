"""Loops that leave ended videos out: the same results, with fewer rows."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.vidcap_jax.decoding import toy
from vidcap_jax.data.vocabulary import PAD
from vidcap_jax.decoding import compaction, unroll
from vidcap_jax.decoding.beam import beam_search
from vidcap_jax.distributed.mesh import batch_sharded_over, by_row, make_mesh
from vidcap_jax.training.cost import cost_of_traced

B, L = 24, 9


def trace(t, memory, state):
  """A word of a video is the square of its position, plus its number."""
  return {'words': state['words'].at[:, t].set(memory['number'] + t * t)}


def run(memory, step=trace):
  return compaction.run_until_ended(
    step,
    lambda t, state: t < (state['words'][:, 0] % 100) % (L + 1),
    1,
    memory,
    {'words': jnp.zeros((len(memory['number']), L), jnp.int32).at[:, 0].set(memory['length'])},
  )


def memory_of(lengths, seed=0):
  numbers = np.random.default_rng(seed).integers(100, 900, len(lengths))
  return {'number': numbers.astype(np.int32), 'length': np.asarray(lengths, np.int32)}


def expected(memory):
  words = memory['number'][:, None] + np.arange(L) ** 2
  words[:, 0] = memory['length']
  return np.where(np.arange(L) < np.maximum(memory['length'], 1)[:, None], words, 0)


@pytest.mark.parametrize(('videos', 'sizes'), [(64, [64, 32, 16]), (24, [24, 12]), (9, [9])])
def test_sizes_fall_to_a_few_videos(videos, sizes):
  assert compaction.sizes_of(videos) == sizes


def test_accelerators_have_fewer_sizes(monkeypatch):
  monkeypatch.setattr(compaction, 'batch_platform', lambda: 'tpu')
  assert compaction.sizes_of(64) == [64, 32]


@pytest.mark.parametrize(
  'lengths',
  [
    np.arange(B) % (L + 1),
    np.full(B, L),
    np.ones(B),
    np.where(np.arange(B) == 17, L, 2),
    np.random.default_rng(1).integers(0, L + 1, B),
  ],
)
def test_each_video_gets_its_own_number_of_steps(lengths):
  memory = memory_of(lengths)
  np.testing.assert_array_equal(jax.jit(run)(memory)['words'], expected(memory))


def test_ended_videos_are_not_computed():
  rows = []

  def counted(t, memory, state):
    number = len(memory['number'])
    jax.debug.callback(lambda: rows.append(number))
    return trace(t, memory, state)

  memory = memory_of(np.where(np.arange(B) < 8, L, 3))
  jax.block_until_ready(jax.jit(functools.partial(run, step=counted))(memory))
  jax.effects_barrier()
  assert rows == [24, 24, *[12] * 6]  # 8 videos are left after word 2


def test_loops_for_fewer_videos_cost_nothing_when_no_caption_ends():
  """Operations are counted for a batch that is computed to the last word."""
  w = jnp.ones((64, 64))

  def step(t, memory, state):
    return {**trace(t, memory, state), 'x': state['x'] @ w}

  def products(memory):
    state = {'words': jnp.ones((B, L), jnp.int32), 'x': jnp.ones((B, 64))}
    running = lambda t, state: state['words'][:, 0] > t  # noqa: E731
    return compaction.run_until_ended(step, running, 0, memory, state)

  traced = jax.jit(products).trace(memory_of(np.ones(B)))
  found = cost_of_traced(traced, while_rounds=L).flops
  assert found == pytest.approx(L * 2 * B * 64 * 64, rel=0.05)


def varied(seed=3):
  """Tables whose captions end early, late or never."""
  rows = [toy.tables(seed + b, 1, eos=float(b % 7) - 2.0) for b in range(B)]
  return np.concatenate(rows)


@pytest.mark.parametrize('method', ['greedy', 'beam'])
def test_captions_are_those_of_videos_alone(method):
  def decode(memory):
    if method == 'greedy':
      return unroll.greedy(toy.captioner, memory, L)
    return beam_search(toy.captioner, memory, L, 3, n_best=2, length_penalty=0.5)

  tables, decode = varied(), jax.jit(decode)
  together = jax.device_get(decode(tables))
  assert len(set((together.tokens != PAD).sum(axis=-1)[:, 0])) > 3
  for b in range(B):
    alone = jax.device_get(decode(tables[b : b + 1]))
    jax.tree.map(lambda x, y, b=b: np.testing.assert_array_equal(x[b], y[0]), together, alone)


def test_a_sharded_batch_shrinks_without_moving_videos():
  """Each device gathers its own videos; only whether to go on is agreed upon."""
  mesh = make_mesh(data=2, devices=jax.devices()[:2])
  lengths = np.concatenate([np.full(B, 2), np.arange(B) % (L + 1)])
  memory = memory_of(lengths)
  memory['unused'] = np.zeros((2 * B, 1000), np.float32)

  def step(t, memory, state):
    words = trace(t, memory, state)['words']
    return {'words': words + memory['unused'].sum(axis=1, keepdims=True).astype(jnp.int32)}

  @jax.jit
  def sharded(memory):
    with batch_sharded_over(mesh):
      return run(memory, step)

  compiled = sharded.lower(jax.device_put(memory, by_row(mesh))).compile()
  text = compiled.as_text()
  kinds = set(re.findall(r' (all-\w+|collective-\w+|reduce-scatter)(?:-start)?\(', text))
  assert kinds <= {'all-reduce'}
  shapes = re.findall(r'= (\S+) all-reduce\(', text)
  assert shapes
  assert all(re.match(r'(pred|s32)\[\]', shape) for shape in shapes)
  found = compiled(jax.device_put(memory, by_row(mesh)))['words']
  np.testing.assert_array_equal(found, expected(memory))
