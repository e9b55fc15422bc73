"""Sends forms to a server, as a browser or curl does, and reads JSON."""

import dataclasses
import http.client
import json
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

BOUNDARY = 'x-boundary-of-tests'
SECONDS = 120  # a busy machine

Part = tuple[str, str | None, bytes]  # field, file name, content


@dataclasses.dataclass(frozen=True)
class Answer:
  """An answer of a server."""

  status: int
  headers: Mapping[str, str]
  body: bytes

  @property
  def json(self) -> Any:
    return json.loads(self.body)

  @property
  def code(self) -> str:
    """The code of an error."""
    return self.json['error']['code']


def parts_of(files: Sequence[tuple[str, bytes]] = (), **texts: object) -> list[Part]:
  """Parts ``file`` and text fields."""
  named: list[Part] = [('file', name, content) for name, content in files]
  return named + [(name, None, str(value).encode()) for name, value in texts.items()]


def body_of(parts: Sequence[Part]) -> bytes:
  """The body of a form."""
  pieces = []
  for field, name, content in parts:
    file = '' if name is None else f'; filename="{name}"'
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{field}"{file}\r\n\r\n'
    pieces += [head.encode(), content, b'\r\n']
  return b''.join([*pieces, f'--{BOUNDARY}--\r\n'.encode()])


def connect(url: str) -> http.client.HTTPConnection:
  return http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=SECONDS)


def request(url: str, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
  """Sends a request; ``Content_Type`` names the header ``Content-Type``."""
  connection = connect(url)
  try:
    named = {name.replace('_', '-'): value for name, value in headers.items()}
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    return Answer(answer.status, dict(answer.getheaders()), answer.read())
  finally:
    connection.close()


def get(url: str, path: str) -> Answer:
  return request(url, 'GET', path)


def post(url: str, parts: Sequence[Part], **headers: str) -> Answer:
  """Sends a form to /v1/captions."""
  kind = f'multipart/form-data; boundary={BOUNDARY}'
  return request(url, 'POST', '/v1/captions', body_of(parts), **{'Content_Type': kind, **headers})
