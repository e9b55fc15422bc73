"""Sends captioning requests to a server from several clients at once, and times them."""

import contextlib
import dataclasses
import http.client
import itertools
import json
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vidcap_jax.errors import UserError

REQUEST_SECONDS = 120.0  # the longest that a client waits for an answer
MOST_RETRIES = 50  # of a request that the server was too busy for


@dataclasses.dataclass(frozen=True)
class Upload:
  """The form of a request.

  Attributes:
    name: of the video.
    files: (field, file name, contents) of each file.
    fields: text fields.
  """

  name: str
  files: tuple[tuple[str, str, bytes], ...]
  fields: Mapping[str, str] = dataclasses.field(default_factory=dict)

  def encode(self) -> tuple[bytes, str]:
    """The body as multipart/form-data, and its content type."""
    boundary = uuid.uuid4().hex
    parts = []
    for field, text in self.fields.items():
      parts.append(f'--{boundary}\r\n{_disposition(field)}\r\n\r\n{text}\r\n'.encode())
    for field, name, contents in self.files:
      head = f'{_disposition(field)}; filename="{name}"\r\nContent-Type: application/octet-stream'
      parts.append(f'--{boundary}\r\n{head}\r\n\r\n'.encode() + contents + b'\r\n')
    parts.append(f'--{boundary}--\r\n'.encode())
    return b''.join(parts), f'multipart/form-data; boundary={boundary}'


def _disposition(field: str) -> str:
  return f'Content-Disposition: form-data; name="{field}"'


@dataclasses.dataclass(frozen=True)
class Answer:
  """What a client got for one upload.

  Attributes:
    name: of the video.
    seconds: from the first attempt until the answer was read.
    results: of the answer.
    retries: attempts that were answered with 429.
  """

  name: str
  seconds: float
  results: list[dict[str, Any]]
  retries: int


class Client:
  """A connection that is kept open between requests, as browsers do."""

  def __init__(self, url: str):
    self._address = urllib.parse.urlsplit(url)
    self._connection: http.client.HTTPConnection | None = None

  def request(
    self,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
  ) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Status, headers and body of an answer; a connection that the server closed is opened anew."""
    for attempt in (0, 1):
      fresh = self._connection is None
      if self._connection is None:
        self._connection = self._connect()
      try:
        self._connection.request(method, path, body, dict(headers or {}))
        answer = self._connection.getresponse()
        return answer.status, answer.headers, answer.read()
      except (ConnectionError, http.client.RemoteDisconnected):
        self.close()
        if fresh or attempt:
          raise
    raise AssertionError

  def _connect(self) -> http.client.HTTPConnection:
    kinds = {'http': http.client.HTTPConnection, 'https': http.client.HTTPSConnection}
    if self._address.scheme not in kinds or not self._address.netloc:
      raise UserError(f'--url={self._address.geturl()}: must start with http:// or https://')
    return kinds[self._address.scheme](self._address.netloc, timeout=REQUEST_SECONDS)

  def caption(self, upload: Upload) -> Answer:
    """Sends an upload, again after the time that a busy server names.

    Raises:
      UserError: any other answer than captions.
    """
    body, kind = upload.encode()
    begun = time.perf_counter()
    retries = 0
    while True:
      status, headers, text = self.request('POST', '/v1/captions', body, {'Content-Type': kind})
      if status != 429 or retries == MOST_RETRIES:
        break
      time.sleep(float(headers['Retry-After']))
      retries += 1
    seconds = time.perf_counter() - begun
    if status != 200:
      raise UserError(f'{upload.name}: status {status}: {text[:500].decode(errors="replace")}')
    return Answer(upload.name, seconds, json.loads(text)['results'], retries)

  def read_json(self, path: str) -> dict[str, Any]:
    """The JSON object at a path."""
    status, _, text = self.request('GET', path)
    if status != 200:
      raise UserError(f'GET {path}: status {status}: {text[:500].decode(errors="replace")}')
    return json.loads(text)

  def close(self) -> None:
    if self._connection is not None:
      self._connection.close()
    self._connection = None


def run_load(
  url: str,
  uploads: Sequence[Upload],
  clients: int,
  requests: int,
  seconds: float,
  after: Callable[[int], None] = lambda done: None,
) -> tuple[list[Answer], float]:
  """Sends uploads in turn from several clients, each with one request at a time.

  Args:
    url: of the server.
    uploads: sent one after another, and again from the first.
    clients: threads.
    requests: how many are sent at most.
    seconds: after which no more are sent.
    after: called with the number of answers after each, by one thread at a time.

  Returns:
    The answers, and the seconds that all of them took.

  Raises:
    UserError: of the first request that failed, after which no more are sent.
  """
  numbers = itertools.count()
  answers: list[Answer] = []
  errors: list[BaseException] = []
  lock = threading.Lock()
  begun = time.perf_counter()

  def work() -> None:
    with contextlib.closing(Client(url)) as client:
      while not errors and time.perf_counter() - begun < seconds:
        if (number := next(numbers)) >= requests:
          return
        answer = client.caption(uploads[number % len(uploads)])
        with lock:
          answers.append(answer)
          after(len(answers))

  def guarded() -> None:
    try:
      work()
    except (UserError, OSError, http.client.HTTPException, ValueError) as error:
      errors.append(error)

  threads = [threading.Thread(target=guarded) for _ in range(clients)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  elapsed = time.perf_counter() - begun
  if errors:
    raise errors[0] if isinstance(errors[0], UserError) else UserError(f'{url}: {errors[0]!r}')
  return answers, elapsed
