"""Writes submissions to challenge servers, for splits whose references are not public."""

from collections.abc import Mapping, Sequence

from etils import epath

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.files import write_json


def write(folder: epath.Path, captions: Mapping[str, str], models: Sequence[Restored]) -> None:
  """Writes the submissions to both servers into a folder.

  Args:
    folder: which exists.
    captions: one caption per video id.
    models: all that have made them.
  """
  write_vatex(folder / 'submission_vatex.json', captions)
  used = ', '.join(_external_data(models))
  write_msrvtt(folder / 'submission_msrvtt.json', captions, used or None)


def write_vatex(path: epath.PathLike, captions: Mapping[str, str]) -> None:
  """Writes a submission to the VATEX server: one JSON object ``{videoID: caption}``.

  The server expects the file in a zip archive.
  """
  write_json(path, dict(captions), ensure_ascii=False)


def write_msrvtt(
  path: epath.PathLike, captions: Mapping[str, str], external_data: str | None = None
) -> None:
  """Writes a submission to the MSR-VTT challenge.

  Args:
    path: the JSON file to write.
    captions: one caption per video id.
    external_data: data used besides MSR-VTT, e.g. the networks that extracted the features and
      their training data; None if there is none. The rules require it.
  """
  details = {'used': 'false' if external_data is None else 'true', 'details': external_data or ''}
  result = [{'video_id': v, 'caption': c} for v, c in captions.items()]
  whole = {'version': 'VERSION 1.0', 'result': result, 'external_data': details}
  write_json(path, whole, ensure_ascii=False)


def _external_data(models: Sequence[Restored]) -> list[str]:
  """What was trained on other data, which challenges require to be declared."""
  streams = [stream for model in models for stream in model.streams]
  networks = {s.extractor or f'network of stream {s.name!r}: not recorded' for s in streams}
  files = {model.config.train.get('word_vectors') for model in models}
  words = {f'word vectors {epath.Path(file).name}' for file in files if file}
  return [*sorted(networks), *sorted(words)]
