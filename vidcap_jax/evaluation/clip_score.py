"""CLIPScore and RefCLIPScore: how close captions are to what is seen, by CLIP's embeddings.

Hessel et al., "CLIPScore: A Reference-free Evaluation Metric for Image Captioning", 2021. A video's
embedding is the mean of those of its frames, as in CLIP4Clip (Luo et al. 2021) and EMScore's coarse
score (Shi et al. 2022).
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from vidcap_jax.counts import counted
from vidcap_jax.errors import ConfigError, DataError, VideoError, first_few
from vidcap_jax.features import picture_files, video, video_decoder, video_stills
from vidcap_jax.features.backbones import transformers_clip
from vidcap_jax.features.picture_files import Source
from vidcap_jax.files import check_input
from vidcap_jax.progress import progress

METRICS = ('CLIPScore', 'RefCLIPScore')
FRAMES = 8  # of a video
PREFIX = 'A photo depicts '  # before each caption and reference, as published
_WEIGHT = 2.5

load_model = functools.lru_cache(maxsize=1)(transformers_clip.Clip)


class Model(Protocol):
  """CLIP's encoders, see ``transformers_clip.Clip``."""

  size: int
  scale: int

  def embed_pictures(self, pictures: np.ndarray, /) -> np.ndarray: ...

  def embed_texts(self, texts: Sequence[str], /) -> np.ndarray: ...


def check(model: str, videos: str, frames: int) -> None:
  """Checks the options and loads the model, before captions are read.

  Args:
    model, videos: the folders of the model and of the videos.
    frames: of a video.

  Raises:
    ConfigError: a folder is not given, or there is no frame.
    UserError: no such folder, or one without a CLIP model.
    ModuleNotFoundError: the extra ``torch`` or ``video`` is not installed.
  """
  for flag, folder, what in (
    ('--clip_model', model, 'a CLIP model'),
    ('--videos', videos, 'the videos, pictures or folders of frames'),
  ):
    if not folder:
      raise ConfigError(f'CLIPScore and RefCLIPScore need {flag}=DIR, the folder of {what}')
    check_input(flag, folder, f'the folder of {what}', 'folder')
  if frames < 1:
    raise ConfigError(f'--clip_frames={frames}: give a number of frames, 1 or more')
  video_decoder.import_av()
  load_model(model)


def find_videos(folder: str, ids: Sequence[str]) -> dict[str, Source]:
  """The source of each video, in the order of the ids; DataError counts and names missing ones."""
  found = video_stills.find_sources(folder, ids)
  if missing := [video_id for video_id in ids if video_id not in found]:
    raise DataError(
      f'--videos={folder}: no video, picture or folder of frames of {len(missing)} of '
      f'{counted(len(ids), "video")} ({first_few(missing)})',
      missing,
    )
  return {video_id: found[video_id] for video_id in ids}


def embed_videos(
  sources: Mapping[str, Source], model: Model, frames: int, log: Callable[[str], None]
) -> np.ndarray:
  """The embeddings of videos, (N, D), of length 1.

  Args:
    sources: of the videos by id.
    model: embeds frames.
    frames: of a video, evenly spaced.
    log: called with a line for each partly damaged file.

  Raises:
    DataError: videos that can't be read; it counts and names them, after all have been tried.
  """
  embeddings: list[np.ndarray] = []
  unread: dict[str, str] = {}
  for video_id, source in progress(sources.items(), len(sources), 'embedding videos'):
    notes: list[str] = []
    try:
      embeddings.append(_embed_video(source, model, frames, notes))
    except VideoError as error:
      unread[video_id] = str(error)
    for note in notes:
      log(note)
  if unread:
    raise DataError(
      f'{len(unread)} of {counted(len(sources), "video")} cannot be read ({first_few([*unread])}): '
      f'{first_few([*unread.values()], "; ")}; repair them, or leave them out of captions '
      'and references',
      [*unread],
    )
  return np.stack(embeddings)


def _embed_video(source: Source, model: Model, frames: int, notes: list[str]) -> np.ndarray:
  pictures = picture_files.frames_of(source)
  if pictures is not None:  # a single picture is one frame
    frames = min(frames, len(pictures.files))
  request = video.Pictures({'uniform': frames}, model.size, model.scale)
  images = []
  for _, frame in video.read(source, {'': request}, notes):
    assert isinstance(frame, video.Frame)
    images.append(frame.image)
  return transformers_clip.unit(model.embed_pictures(np.stack(images)).mean(0))


def score(
  captions: Sequence[str],
  references: Sequence[Sequence[str]],
  videos: np.ndarray,
  model: Model,
  names: Sequence[str] = METRICS,
) -> dict[str, np.ndarray]:
  """The scores of videos by metric, (N,); an empty caption scores 0.

  Args:
    captions: one of each video, not tokenised.
    references: of each video, one or more; read for RefCLIPScore only.
    videos: their embeddings, (N, D), of length 1.
    model: embeds texts.
    names: of ``METRICS``.
  """
  with_references = 'RefCLIPScore' in names
  texts = {*captions, *(c for row in references if with_references for c in row)}
  numbers = {text: number for number, text in enumerate(sorted(texts))}
  embeddings = model.embed_texts([PREFIX + text for text in numbers])
  caption_embeddings = embeddings[[numbers[caption] for caption in captions]]
  given = np.array([bool(caption) for caption in captions])
  scores = {'CLIPScore': clip_scores(videos, caption_embeddings) * given}
  if with_references:
    reference_embeddings = [embeddings[[numbers[c] for c in row]] for row in references]
    scores['RefCLIPScore'] = ref_clip_scores(
      scores['CLIPScore'], caption_embeddings, reference_embeddings
    )
  return {name: scores[name] for name in METRICS if name in names}


def clip_scores(videos: np.ndarray, captions: np.ndarray) -> np.ndarray:
  """2.5 max(cos, 0) of embeddings of length 1: (N, D), (N, D) -> (N,)."""
  return _WEIGHT * np.maximum((videos * captions).sum(-1, dtype=float), 0)


def ref_clip_scores(
  scores: np.ndarray, captions: np.ndarray, references: Sequence[np.ndarray]
) -> np.ndarray:
  """The harmonic mean of CLIPScore and the cosine with the nearest reference, or 0: (N,).

  Args:
    scores: CLIPScore, (N,).
    captions: embeddings of length 1, (N, D).
    references: the same of each video's references, (R, D).
  """
  pairs = zip(captions, references, strict=True)
  nearest = np.array([max(float((rows @ caption).max()), 0) for caption, rows in pairs])
  sums = scores + nearest
  return 2 * scores * nearest / np.where(sums > 0, sums, 1)
