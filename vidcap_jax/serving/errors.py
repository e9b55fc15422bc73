"""Errors that the API answers with: a status, a code for programs and a message for people."""

from collections.abc import Mapping
from typing import Any


class ApiError(Exception):
  """An answer that is not 2xx.

  Attributes:
    status: of HTTP.
    code: of ``CODES``.
    message: without a path of the server.
    headers: of the answer.
  """

  def __init__(self, code: str, message: str, headers: Mapping[str, str] | None = None):
    super().__init__(message)
    self.status, self.code, self.message = CODES[code], code, message
    self.headers = dict(headers or {})

  def to_dict(self) -> dict[str, Any]:
    """The ``error`` of an answer or of a result."""
    return {'code': self.code, 'message': self.message}


# Code -> status.
CODES = {
  'bad_request': 400,
  'bad_multipart': 400,
  'forbidden_host': 403,
  'forbidden_origin': 403,
  'not_found': 404,
  'method_not_allowed': 405,
  'upload_timeout': 408,
  'length_required': 411,
  'too_large': 413,
  'too_long': 413,
  'unsupported_media_type': 415,
  'unknown_field': 422,
  'bad_field': 422,
  'no_input': 422,
  'no_files': 422,
  'no_attention': 422,
  'bad_file': 422,
  'bad_features': 422,
  'decoding_failed': 422,
  'decoding_timeout': 422,
  'busy': 429,
  'internal': 500,
  'starting': 503,
  'stopping': 503,
  'no_workers': 503,
  'captioning_timeout': 504,
}
