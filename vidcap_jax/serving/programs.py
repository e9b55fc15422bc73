"""The compiled programs of a server: decoding methods and batch sizes that are fixed at its start.

What requests may choose otherwise, such as a temperature, is an argument of a program, so that no
request waits for the compiler.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from vidcap_jax.api import decoding, word_attention
from vidcap_jax.checkpoints.restore import Restored, with_decode
from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import Video
from vidcap_jax.distributed import compilation_cache, runtime
from vidcap_jax.distributed.mesh import to_devices, to_host
from vidcap_jax.errors import ConfigError
from vidcap_jax.inference import captioning
from vidcap_jax.inference.result import Candidate
from vidcap_jax.models.attention_axes import Attention
from vidcap_jax.studies import weights as attention_weights

# Method -> settings whose values are arguments of its programs.
VALUES = {'beam': ('length_penalty',), 'sample': ('temperature', 'top_k', 'top_p'), 'greedy': ()}


@dataclasses.dataclass(frozen=True)
class Program:
  """A way to decode that is compiled at the start.

  Attributes:
    method: 'greedy', 'beam' or 'sample'.
    beam: how wide; 0 for the other methods.
    captions: of a video.
  """

  method: str
  beam: int = 0
  captions: int = 1


@dataclasses.dataclass(frozen=True)
class Decoding:
  """How a video is decoded.

  Attributes:
    program: that decodes it.
    values: of the settings in ``VALUES``, in this order.
    captions: how many of the program's captions are wanted.
  """

  program: Program
  values: tuple[float, ...] = ()
  captions: int = 1


@dataclasses.dataclass(frozen=True)
class Captioned:
  """A video's captions, best first, and the attention weights at the words of the first."""

  candidates: tuple[Candidate, ...]
  attention: Mapping[str, Attention]


Decoder = Callable[[Sequence[Video], Sequence[int], Sequence[float]], list[tuple[Candidate, ...]]]


class Programs:
  """Captions batches of videos with the checkpoints of a server.

  Attributes:
    methods: that requests may choose.
    beams: widths that they may choose, ascending.
    captions: the most captions of a video.
    has_attention: whether some model has attention weights.
    batch_sizes: of the programs, ascending.
  """

  def __init__(
    self,
    members: Sequence[Restored],
    weights: Sequence[float] | None,
    beams: Sequence[int],
    captions: int,
    batch_sizes: Sequence[int],
  ):
    """Checks settings; ``first_runs`` compile.

    Raises:
      ConfigError: settings of the checkpoint that don't fit a method or a beam.
    """
    self.members, self.weights = tuple(map(_without_threads, members)), weights
    self.methods = ('greedy', 'beam', 'sample')
    self.beams = tuple(sorted({*beams}))
    self.captions = captions
    self.batch_sizes = tuple(sorted({*batch_sizes}))
    settings = runtime.settings_of_checkpoint(members[0].config)
    compilation_cache.use(settings['compilation_cache'])
    self._precision = runtime.precision_of(settings)
    self.has_attention = any(attention_weights.axes_of(member) for member in members)
    self._decoders: dict[tuple[Program, int], Decoder] = {
      (program, size): self._make_decoder(program, size)
      for program in self.all_programs()
      for size in self.batch_sizes
    }
    self._explainers = (
      {size: word_attention.make_explainer(self.members, size) for size in self.batch_sizes}
      if self.has_attention
      else {}
    )

  def all_programs(self) -> Iterator[Program]:
    """One caption costs less than several, so there is a program for one and one for the most."""
    yield Program('greedy')
    for beam in self.beams:
      for captions in sorted({1, min(beam, self.captions)}):
        yield Program('beam', beam, captions)
    for captions in sorted({1, self.captions}):
      yield Program('sample', 0, captions)

  def program_for(self, method: str, beam: int, captions: int) -> Program:
    """The program that makes as many captions, or the next one that makes more.

    Raises:
      ConfigError: there is none.
    """
    beam = beam if method == 'beam' else 0
    found = [p for p in self.all_programs() if (p.method, p.beam) == (method, beam)]
    fitting = [program for program in found if program.captions >= captions]
    if not fitting:
      most = max((program.captions for program in found), default=0)
      raise ConfigError(f'captions={captions}: this server makes at most {most} by this method')
    return fitting[0]

  def first_runs(self, video: Video) -> list[Callable[[], Any]]:
    """Functions that run every program once, which compiles it.

    Args:
      video: any that fits the models.
    """
    runs: list[Callable[[], Any]] = []
    for size in self.batch_sizes:
      videos = [video] * size
      for program in self.all_programs():
        values = tuple(float(self.setting(name)) for name in VALUES[program.method])
        how = Decoding(program, values)
        runs.append(functools.partial(self.run, videos, [0] * size, how))
      # A caption that was truncated has no room for EOS in the usual length: another shape.
      for words in (1, self.members[0].length) if self.has_attention else ():
        caption = ' '.join([self.members[0].vocabulary.words[-1]] * words)
        runs.append(functools.partial(self.explain, videos, [caption] * size))
    return runs

  def setting(self, name: str) -> Any:
    """The checkpoint's value of a decoding setting."""
    return self.members[0].config.decode[name]

  def run(
    self, videos: Sequence[Video], rows: Sequence[int], how: Decoding
  ) -> list[tuple[Candidate, ...]]:
    """The captions of each video, best first.

    Args:
      videos: at most as many as the largest batch size.
      rows: of each video, the number that its samples depend on besides the seed of the config.
      how: of all of them.
    """
    decode = self._decoders[how.program, self._size(len(videos))]
    with jax.default_matmul_precision(self._precision):
      return [candidates[: how.captions] for candidates in decode(videos, rows, how.values)]

  def explain(self, videos: Sequence[Video], captions: Sequence[str]) -> list[dict[str, Attention]]:
    """The attention weights at the words of captions, by name, of each video."""
    if not videos:
      return []
    with jax.default_matmul_precision(self._precision):
      return self._explainers[self._size(len(videos))](videos, captions)

  def _size(self, videos: int) -> int:
    return next(size for size in self.batch_sizes if size >= videos)

  def _make_decoder(self, program: Program, size: int) -> Decoder:
    first, *others = self.members
    given = {'method': program.method, 'n_best': program.captions}
    given |= {'beam': program.beam} if program.method == 'beam' else {}
    first = with_decode(first, decoding.changes(first.config.decode, given))
    members = (first, *others)
    if others:
      run: Any = captioning.make_ensemble_decoder(members, self.weights)
      params: Any = tuple(member.params for member in members)
    else:
      captioning.require_captioner(first)
      run = captioning.make_decoder(
        first.module, first.streams, first.vocabulary, first.config, first.length, first.mesh
      )
      params = first.params
    names = VALUES[program.method]

    def decode(videos, rows, values):
      if others:
        ((_, batch),) = captioning.ensemble_batches(members, videos, size)
      else:
        source = attach(videos, first.key_frames)
        ((_, batch),) = captioning.batches_of(first, source, size)
      index = batch['video_index']
      batch = {**batch, 'video_index': np.where(index < 0, index, np.take(rows, index))}
      batch = dict(to_devices(batch, first.mesh))
      if names:
        batch['decode'] = dict(zip(names, map(_scalar, values), strict=True))
      made = run(params, batch)
      index, tokens, log_probs = to_host((index, made.tokens, made.log_prob))
      return [
        tuple(
          Candidate(first.vocabulary.decode(t), float(p))
          for t, p in zip(tokens[row], log_probs[row], strict=True)
        )
        for row in np.flatnonzero(index >= 0)
      ]

    return decode


def _without_threads(member: Restored) -> Restored:
  """The checkpoint, whose batches are read by the thread that captions: videos are in memory."""
  config = member.config.copy_and_resolve_references()
  with config.unlocked():
    config.data.threads = 0
  return dataclasses.replace(member, config=config)


def _scalar(value: float) -> jax.Array:
  return jax.numpy.asarray(value, jax.numpy.float32)
