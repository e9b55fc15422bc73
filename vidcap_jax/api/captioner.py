"""Loads checkpoints, and captions videos, pictures and features with them."""

import dataclasses
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

from vidcap_jax.api import decoding, described, sources, word_attention
from vidcap_jax.api.keywords import as_keywords, named_in_errors
from vidcap_jax.api.sources import Features, PathLike
from vidcap_jax.checkpoints.restore import Restored, with_decode
from vidcap_jax.data.schema import Stream
from vidcap_jax.distributed import compilation_cache, runtime
from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import ConfigError
from vidcap_jax.inference import captioning
from vidcap_jax.inference.members import find_members, joint_provenance, restore_members
from vidcap_jax.inference.predict import BATCH, CaptionBatch, caption_inputs
from vidcap_jax.inference.result import Result, Results
from vidcap_jax.progress import progress as with_progress

# Devices run one program at a time: two that exchange data between devices and are started by
# two threads in different orders on different devices would wait for each other for ever.
DEVICES = threading.RLock()


@named_in_errors(elsewhere=decoding.SETTINGS)
def load(
  checkpoint: PathLike | Sequence[PathLike],
  *,
  weights: Sequence[float] | None = None,
  batch_size: int = BATCH,
) -> 'Captioner':
  """Loads a checkpoint, or several that caption together.

  Args:
    checkpoint: a workdir (the best step of its last finished stage that makes captions), a stage
      folder, or a step folder ``WORKDIR/checkpoints/STAGE/STEP``. Several make an ensemble: the
      mean of their probabilities decides each word, and the settings of the first one apply.
    weights: of an ensemble; None: equal weights.
    batch_size: videos that are captioned at a time. Smaller lists are padded to it, so that
      nothing is compiled again.

  Returns:
    A ``Captioner``.

  Raises:
    UserError: no such checkpoint; a model that makes no captions; models with different
      vocabularies, or with streams of one name that were made differently; unsuitable weights.

  Example:
    >>> import vidcap_jax as vc
    >>> captioner = vc.load('runs/mine')
    >>> ensemble = vc.load(['runs/mine', 'runs/mine'], weights=[2, 1])
  """
  paths = find_members(sources.as_list(checkpoint), weights, 'checkpoint')
  if batch_size < 1:
    raise ConfigError(f'batch_size={batch_size}: must be at least 1')
  return Captioner(restore_members(paths, make_mesh()), weights, batch_size)


class Captioner:
  """Captions videos with one checkpoint, or with several; ``load`` makes it.

  Threads may share it. Videos are read by the calling thread, and devices caption one batch at a
  time.

  Attributes:
    members: the restored checkpoints.
    weights: of the members; None: equal weights.
    batch_size: videos that are captioned at a time.

  Example:
    >>> import vidcap_jax as vc
    >>> vc.load('runs/mine')
    Captioner(
      model: temporal_spatial, variant temporal
      stream: image, sequence (T, 128), extractor random_sequence
      vocabulary: ... words
      decoding: method='greedy'
      checkpoint: runs/mine/checkpoints/xe/3, step 3, CIDEr ...
    )
  """

  def __init__(self, members: Sequence[Restored], weights: Sequence[float] | None, batch_size: int):
    self.members = tuple(members)
    self.weights = None if weights is None else tuple(weights)
    self.batch_size = batch_size
    self._provenance = joint_provenance(members)
    settings = runtime.settings_of_checkpoint(members[0].config)
    compilation_cache.use(settings['compilation_cache'])
    self._precision = runtime.precision_of(settings)
    self._scores = [described.score_text(member) for member in members]
    self._compiled: dict[Any, Any] = {}  # functions by what they are for
    self._called: set[str] = set()  # the settings of calls so far
    self._decoder({})  # now, rather than at the first video, if the models don't fit together

  @property
  def streams(self) -> dict[str, Stream]:
    """The feature streams that ``features=`` needs, by name, with kind, shape and extractor."""
    streams = (*self._provenance.streams, *self._provenance.alignment_streams)
    return {stream.name: stream for stream in streams}

  @property
  def words(self) -> tuple[str, ...]:
    """The words of the vocabulary, by token id."""
    return self.members[0].vocabulary.words

  def __repr__(self) -> str:
    return described.captioner_text(self.members, self.streams.values(), self._scores)

  @named_in_errors(*decoding.SETTINGS)
  def caption(
    self,
    inputs: PathLike | Iterable[PathLike] | None = None,
    *,
    features: Features | Iterable[Features] | None = None,
    ids: Sequence[str] | None = None,
    captions: int | None = None,
    attention: bool = False,
    pictures: str = 'auto',
    frame_rate: float | str | None = None,
    progress: bool = True,
    **decode: Any,
  ) -> Results:
    """Captions videos, pictures or features.

    Features of files are made as those of the training data were: same networks, same frames.

    Args:
      inputs: video files, pictures, folders of them (sorted by path), lists of them (a text file
        with a path a line), or files and folders of features of the only stream; one, or several
        in any order.
      features: in place of files, stream name -> array of one video, with the axes of the files
        that the data set was built of (by default (T, D) for a sequence, (D,) for a vector,
        (T, rows, columns, D) for a grid, (T, N, D) for regions), of NumPy, JAX or anything that
        ``numpy.asarray`` reads. Or stream name -> file or folder of features. Several videos: a
        list of these.
      ids: names of the videos whose arrays are given; by default '0', '1', …
      captions: how many captions of a video, the best of the beam; default: as in the checkpoint.
      attention: whether results have the weights at each word of their best caption.
      pictures: how pictures in folders are read: 'auto' (the frames of one video if their names
        are numbered), 'frames', 'single' or 'ignore'.
      frame_rate: frames a second of videos whose frames are pictures.
      progress: whether work that takes long shows its progress on stderr.
      **decode: settings for this call in place of the checkpoint's: ``method`` ('beam', 'greedy'
        or 'sample'), ``beam``, ``length_penalty``, ``min_length``, ``no_repeat_ngram``, ``force``,
        ``groups``, ``diversity``, ``temperature``, ``top_k``, ``top_p``. Each new combination is
        compiled once.

    Returns:
      A ``Result`` for each video, in the order of the inputs. One that can't be captioned (no such
      file, damaged, streams or shapes that don't fit, NaN) has an ``error`` and no caption.

    Raises:
      TypeError: an unknown keyword; both inputs and features, or neither.
      ConfigError: decoding settings that don't fit together, or the model has no attention.

    Example:
      >>> import numpy as np
      >>> import vidcap_jax as vc
      >>> captioner = vc.load('runs/mine')
      >>> for result in captioner.caption(['clip.mp4', 'gone.mp4']):
      ...   print(result.video_id, result.error or 'captioned')
      clip captioned
      gone gone.mp4: no such file
      >>> [result] = captioner.caption(features={'image': np.ones((6, 128))})
      >>> [result] = captioner.caption('clip.mp4', beam=3, captions=3, attention=True)
      >>> len(result.captions), result.attention['temporal'].weights.shape[0] == len(result.words)
      (3, True)
    """
    if (inputs is None) == (features is None):
      raise TypeError('caption() takes either inputs, which are files and folders, or features=')
    if ids is not None and features is None:
      raise TypeError('caption() takes ids= only together with features=')
    saved = self.members[0].config.decode
    changes = decoding.changes(saved, {**decode, 'captions': captions}, self.caption)
    run = self._caption_batch(changes, attention)
    if inputs is not None:
      found = sources.from_paths(self._provenance, inputs, pictures, frame_rate)
    elif features is not None:
      found = sources.from_features(self._provenance, features, ids)
    results = caption_inputs(found, run, self.batch_size)
    if progress:
      first = 'compiling' if self._is_new(changes, attention) else ''
      results = with_progress(results, len(found), 'captioning', first=first)
    return Results(map(_in_keywords, results))

  def _is_new(self, changes: Mapping[str, Any], attention: bool) -> bool:
    """Whether this is the first call with these settings, which waits for the compiler."""
    called = {repr(sorted(changes.items())), *(['attention'] if attention else ())}
    is_new = not called <= self._called
    self._called |= called
    return is_new

  def _caption_batch(self, changes: Mapping[str, Any], attention: bool) -> CaptionBatch:
    """A function that captions the videos of a batch, with changes to the decoding settings."""
    caption = self._decoder(changes)
    explain = self._explainer(changes.get('pass')) if attention else None

    def run(videos, ids):
      with DEVICES, jax.default_matmul_precision(self._precision):
        made = caption(videos, ids)
        if explain is None:
          return made
        weights = explain(videos, [each['caption'] for each in made])
      return [{**each, 'attention': of_each} for each, of_each in zip(made, weights, strict=True)]

    return run

  def _decoder(self, changes: Mapping[str, Any]) -> captioning.CaptionFn:
    """The function that captions with these settings, compiled at its first call."""
    first, *others = self.members
    first = with_decode(first, changes)
    key = repr(sorted(first.config.decode.items()))
    with DEVICES:
      if key not in self._compiled:
        members = (first, *others)
        self._compiled[key] = captioning.caption_fn(members, self.weights, self.batch_size)
      return self._compiled[key]

  def _explainer(self, reading: str | None) -> word_attention.Explainer:
    """The function that gives attention weights; ``reading``: of ``decode.pass``."""
    members = self.members
    if reading is not None:
      members = tuple(with_decode(member, {'pass': reading}) for member in members)
    with DEVICES:
      if (key := ('attention', reading)) not in self._compiled:
        self._compiled[key] = word_attention.make_explainer(members, self.batch_size)
      return self._compiled[key]


def _in_keywords(result: Result) -> Result:
  """A result whose error names the keywords of ``Captioner.caption`` in place of flags."""
  if result.error is None:
    return result
  names = ('inputs', 'pictures', 'frame_rate')
  return dataclasses.replace(result, error=as_keywords(result.error, names))
