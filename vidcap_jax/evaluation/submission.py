"""Writes submissions to challenge servers, for splits whose references are not public."""

from collections.abc import Mapping

from etils import epath

from vidcap_jax.files import write_json


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
