"""The files that challenge servers take, for splits whose references are not public."""

from collections.abc import Mapping

from etils import epath

from vidcap_jax.files import write_json


def write_vatex(path: epath.PathLike, captions: Mapping[str, str]) -> None:
  """Writes what the VATEX server takes: one JSON object ``{videoID: caption}``.

  The server wants the file in a zip archive.
  """
  write_json(path, dict(captions), ensure_ascii=False)


def write_msrvtt(
  path: epath.PathLike, captions: Mapping[str, str], external_data: str | None = None
) -> None:
  """Writes what the MSR-VTT challenge takes.

  Args:
    path: the JSON file to write.
    captions: one caption per video id.
    external_data: what was used besides MSR-VTT itself, e.g. the networks that made the features
      and their training data; None if nothing. The rules ask for it.
  """
  details = {'used': 'false' if external_data is None else 'true', 'details': external_data or ''}
  result = [{'video_id': v, 'caption': c} for v, c in captions.items()]
  whole = {'version': 'VERSION 1.0', 'result': result, 'external_data': details}
  write_json(path, whole, ensure_ascii=False)
