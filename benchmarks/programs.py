"""The programs that are timed: training steps, decoding and rewards of a model of given sizes.

Features are random, and so are captions, with the word frequencies of Zipf's law. The rest is the
code of training and evaluation.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from ml_collections import ConfigDict

from configs import common, transformer_sizes
from vidcap_jax import models
from vidcap_jax.data.schema import Stream
from vidcap_jax.data.vocabulary import EOS, PAD, SPECIAL, UNK, Vocabulary
from vidcap_jax.decoding.decode import decode, encode
from vidcap_jax.distributed.cpu_products import decoder_options
from vidcap_jax.errors import UserError
from vidcap_jax.inference.captioning import make_decoder
from vidcap_jax.models.captioner import Captioner, bind, init_params
from vidcap_jax.models.streams import example_inputs, to_inputs
from vidcap_jax.objectives import make_objective
from vidcap_jax.objectives.cross_entropy import caption_loss
from vidcap_jax.rewards import score
from vidcap_jax.rewards.references import References, make_references
from vidcap_jax.training.cost import cost_of_traced
from vidcap_jax.training.optimizer import make_optimizer, make_schedule
from vidcap_jax.training.step import initial_state, make_train_step

MODELS = ('temporal', 'transformer')
SELF_CRITICAL = {'rewards': {'cider': 1.0, 'bleu4': 0.0}, 'baseline': 'greedy', 'samples': 1}
STEPS = 1000  # of the whole training; the cost of a step does not depend on it


@dataclasses.dataclass(frozen=True)
class Sizes:
  """Sizes of the data and of the model.

  Attributes:
    batch: B, videos of a batch.
    frames: T of each video.
    channels: D of the features.
    hidden: H, every size of the model.
    words: V, the vocabulary.
    length: L, tokens of a caption.
    references: R of each video.
    videos: of the training split.
    beam: width of the beam.
    dtype: of the model's computations.
    model: one of ``MODELS``.
    layers: of the Transformer's encoder, and as many of its decoder.
  """

  batch: int = 64
  frames: int = 28
  channels: int = 2048
  hidden: int = 512
  words: int = 10_000
  length: int = 20
  references: int = 20
  videos: int = 1_000
  beam: int = 5
  dtype: str = 'float32'
  model: str = 'temporal'
  layers: int = 3

  @property
  def stream(self) -> Stream:
    return Stream('image', 'sequence', (None, self.channels), longest=self.frames)

  @property
  def vocabulary(self) -> Vocabulary:
    names = (*SPECIAL, *(f'w{i}' for i in range(len(SPECIAL), self.words)))
    return Vocabulary(names, 'whitespace', 1, self.length - 1)


def config(sizes: Sizes) -> ConfigDict:
  """The config of the temporal model of the VATEX paper, or of a Transformer, on one stream.

  Raises:
    UserError: another model.
  """
  if sizes.model not in MODELS:
    raise UserError(f'--model={sizes.model}: unknown; known: {", ".join(MODELS)}')
  c = common.base()
  if sizes.model == 'transformer':
    transformer_sizes.transformer(c, 'base', ('image',))
    c.model.heads, c.model.feed_forward = max(1, sizes.hidden // 64), 4 * sizes.hidden
    c.model.encoder_layers = c.model.decoder_layers = sizes.layers
  else:
    common.temporal_spatial(c, 'temporal')
    c.model.global_streams = c.model.temporal_streams = ('image',)
  for size in ('hidden', 'embed', 'project', 'attention'):
    if size in c.model:
      c.model[size] = sizes.hidden
  c.data.captions_per_video, c.data.length_buckets, c.data.standardise = 1, (), False
  c.train.batch_size, c.train.dtype = sizes.batch, sizes.dtype
  c.decode.beam = sizes.beam
  return c


def captions(sizes: Sizes, rows: int, length: int, seed: int = 0) -> np.ndarray:
  """Random captions (rows, length) that end with EOS; word frequencies follow Zipf's law."""
  share = 1 / np.arange(1, sizes.words - UNK)
  words = np.random.default_rng(seed).choice(
    np.arange(UNK + 1, sizes.words), (rows, length), p=share / share.sum()
  )
  words[:, -1] = EOS
  return words.astype(np.int32)


def batch(sizes: Sizes, length: int | None = None) -> dict:
  """A training batch with one caption of ``length`` tokens for each video."""
  B, L = sizes.batch, length or sizes.length
  features = np.abs(np.random.default_rng(0).normal(size=(B, sizes.frames, sizes.channels)))
  return jax.device_put(
    {
      'features': {'image': features.astype(np.float32)},
      'masks': {'image': np.ones((B, sizes.frames), bool)},
      'captions': captions(sizes, B, L)[:, None],
      'caption_index': np.zeros((B, 1), np.int32),
      'video_index': np.arange(B, dtype=np.int32),
      'category': np.full(B, -1, np.int32),
      'key_frame': np.full(B, -1, np.int32),
    }
  )


@functools.lru_cache(1)
def references(sizes: Sizes) -> References:
  """The reference tables of a training split with captions of the full length."""
  rows = captions(sizes, sizes.videos * sizes.references, sizes.length, seed=1)[:, :-1]
  names = np.array(sizes.vocabulary.words)
  texts = [' '.join(words) for words in names[rows]]
  R = sizes.references
  videos = [texts[v * R : (v + 1) * R] for v in range(sizes.videos)]
  return make_references(videos, sizes.vocabulary, count_eos=True)


@dataclasses.dataclass
class Program:
  """A compiled program with its arguments.

  Attributes:
    run: makes one call, such as a training step, and waits for its result.
    flops: floating-point operations of a call, with all rows computed to the last word.
    memory: bytes of intermediate results, or None if the compiler does not report them.
  """

  run: Callable[[], Any]
  flops: float
  memory: float | None = None


def training_step(sizes: Sizes, *, length: int | None = None, **objective) -> Program:
  """A compiled step of cross entropy, or, given settings of that objective, self-critical."""
  c = config(sizes)
  data = batch(sizes, length)
  if objective:
    c.objective = common.self_critical()
    c.objective.update({'from_scratch': True, 'rewards': {'bleu4': 0.0}, **objective})
    data['tables'] = references(sizes)
  module = models.build(c.model, sizes.words, sizes.dtype)
  loss = make_objective(c, module, None)
  optimizer = make_optimizer(c.optimizer, make_schedule(c.optimizer, STEPS, STEPS))
  state = jax.jit(
    functools.partial(
      initial_state,
      module=module,
      example=example_inputs((sizes.stream,), c, module.config.needs),
      objective=loss,
      optimizer=optimizer,
      videos=sizes.videos,
      most_captions=1,
    )
  )(jax.random.key(0))
  step = make_train_step(c, loss, optimizer, (sizes.stream,), STEPS, STEPS)
  traced = step.trace(state, data)
  compiled = traced.lower().compile()
  analysis = compiled.memory_analysis()

  def run():
    nonlocal state
    state, report = compiled(state, data)
    jax.block_until_ready((state, report))

  flops = cost_of_traced(traced, while_rounds=sizes.length).flops
  return Program(run, flops, getattr(analysis, 'temp_size_in_bytes', None))


def gradient(sizes: Sizes, *, one_pass: bool) -> Callable[[], None]:
  """The gradient of cross entropy, with captions read in one pass or step by step.

  Args:
    sizes: of a model with ``teacher_force``.
    one_pass: whether it is used.
  """
  c, data = config(sizes), batch(sizes)
  module = models.build(c.model, sizes.words, sizes.dtype)
  inputs = to_inputs(data, (sizes.stream,), c.data.standardise)

  def loss(params, inputs, captions, key):
    captioner = bind(module, params)
    if not one_pass:
      captioner = dataclasses.replace(captioner, teacher_force=None)
    total, count = caption_loss(captioner, inputs, captions, key)
    return total / count

  initialise = jax.jit(functools.partial(init_params, module))
  params = initialise(jax.random.key(0), inputs)
  run = jax.jit(jax.value_and_grad(loss))
  arguments = (params, inputs, data['captions'], jax.random.key(1))
  return lambda: jax.block_until_ready(run(*arguments))


def decoding(sizes: Sizes, method: str, lengths: np.ndarray | None = None) -> Program:
  """Decodes a batch by 'greedy' or 'beam' with an untrained model, whose captions rarely end.

  Args:
    sizes: of the batch and the model.
    method: 'greedy' or 'beam'.
    lengths: (B,), the tokens after which the captions of each video end, EOS included; None leaves
      it to the model.
  """
  c = config(sizes)
  c.decode.method = method
  module = models.build(c.model, sizes.words, sizes.dtype)
  params = init_params(
    module, jax.random.key(0), example_inputs((sizes.stream,), c, module.config.needs)
  )
  data = batch(sizes)
  if lengths is None:
    decoder = make_decoder(module, (sizes.stream,), sizes.vocabulary, c, sizes.length)
  else:
    ends = jnp.asarray(lengths, jnp.int32)

    @functools.partial(jax.jit, compiler_options=decoder_options(None, module))
    def decoder(params, batch):
      captioner = ending_at(bind(module, params), ends)
      inputs = to_inputs(batch, (sizes.stream,), c.data.standardise)
      memory = encode(captioner, inputs, c.decode)
      key, rows = jax.random.key(c.seed), batch['video_index']
      return decode(captioner, memory, sizes.length, c.decode, key, rows)

  traced = decoder.trace(params, data)
  # The loop over words makes all steps of greedy decoding, and all but the first of beam search.
  rounds = sizes.length - (method == 'beam')
  compiled = traced.lower().compile()
  return Program(
    lambda: jax.block_until_ready(compiled(params, data)),
    cost_of_traced(traced, while_rounds=rounds).flops,
  )


def ending_at(captioner: Captioner, lengths: jax.Array) -> Captioner:
  """The captioner with captions that end after so many tokens (B,), EOS included, and no earlier.

  So captions of an untrained model have the lengths of a data set's.
  """

  def encode(*args, **kwargs):
    return captioner.encode(*args, **kwargs), lengths

  def start(memory, S, L):
    memory, lengths = memory
    return captioner.start(memory, S, L), jnp.ones((len(lengths), S), jnp.int32)

  def step(carry, x, memory, noise, *, train):
    (carry, tokens), (memory, lengths) = carry, memory
    carry, hidden, extras = captioner.step(carry, x, memory, noise, train=train)
    return (carry, tokens + 1), (hidden, tokens >= lengths[:, None]), extras

  def logits(hidden):
    hidden, is_last = hidden
    logits = captioner.logits(hidden)
    is_eos = jax.lax.broadcasted_iota(jnp.int32, logits.shape, logits.ndim - 1) == EOS
    return jnp.where(is_last[..., None] == is_eos, logits, -1e9)

  return dataclasses.replace(captioner, encode=encode, start=start, step=step, logits=logits)


def products(sizes: Sizes) -> dict[str, Program]:
  """Matrix products in the dtype of the model, whose highest rate is what the machine reaches."""
  dtype, H, V = jnp.dtype(sizes.dtype), sizes.hidden, sizes.words
  shapes = {
    'vocabulary of a step': (sizes.batch * sizes.length, H, V),
    'vocabulary of a beam': (sizes.batch * sizes.beam, H, V),
    'square': (2 * H, 2 * H, 2 * H),
  }
  # On CPUs decoding may use another library than training.
  libraries = {'': None, ' when decoding': decoder_options(None)}
  return {
    f'product, {name}{when}': _product(*shape, dtype, options)
    for name, shape in shapes.items()
    for when, options in libraries.items()
    if options or not when
  }


def _product(
  rows: int, inner: int, columns: int, dtype: jnp.dtype, options: dict[str, str] | None
) -> Program:
  keys = jax.random.split(jax.random.key(0))
  a, b = (
    jax.random.normal(key, shape, dtype)
    for key, shape in zip(keys, ((rows, inner), (inner, columns)))
  )
  run = jax.jit(jnp.matmul, compiler_options=options)
  return Program(lambda: jax.block_until_ready(run(a, b)), 2.0 * rows * inner * columns)


def reward_on_device(sizes: Sizes, samples: int) -> Callable[[], None]:
  """CIDEr-D on the device, of ``samples`` captions of each video of a batch."""
  tables = references(sizes)
  tokens = captions(sizes, sizes.batch * samples, sizes.length, seed=2)
  tokens = jnp.asarray(tokens.reshape(sizes.batch, samples, -1))
  rows = jnp.arange(sizes.batch)
  run = jax.jit(lambda tokens, rows: score(('cider',), tokens, tables, rows, count_eos=True))
  return lambda: jax.block_until_ready(run(tokens, rows))


def reward_on_host(sizes: Sizes, samples: int) -> Callable[[], None]:
  """The same by pycocoevalcap on the host, as in captioners written in PyTorch."""
  from pycocoevalcap.cider.cider import Cider

  to_text = lambda rows: [' '.join(map(str, row[row != PAD])) for row in rows]  # noqa: E731
  R = sizes.references
  reference_texts = to_text(captions(sizes, sizes.batch * R, sizes.length, seed=1))
  tokens = captions(sizes, sizes.batch * samples, sizes.length, seed=2)

  def run():
    hypotheses = {i: [text] for i, text in enumerate(to_text(tokens))}
    of_videos = {i: reference_texts[i // samples * R : (i // samples + 1) * R] for i in hypotheses}
    Cider().compute_score(of_videos, hypotheses)

  return run
