"""Receives the parts of a request within limits, and saves its files."""

import asyncio
import contextlib
import dataclasses
import pathlib
import re
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import BinaryIO

from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request

from vidcap_jax.serving import media
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.settings import Limits

FEATURES = 'features.'  # before the name of a stream
_FIELD_BYTES = 4096
_MOST_FIELDS = 50
_MOST_NAME = 200
_DISCARD_SECONDS = 2.0


@dataclasses.dataclass(frozen=True)
class Form:
  """The parts of a request.

  Attributes:
    files: clips and pictures.
    features: stream -> file in NumPy's format, of one video.
    texts: field -> value.
  """

  files: tuple[UploadFile, ...]
  features: Mapping[str, UploadFile]
  texts: Mapping[str, str]

  async def close(self) -> None:
    """Removes what was stored of the files."""
    for file in (*self.files, *self.features.values()):
      await file.close()


def check_head(request: Request, limits: Limits) -> None:
  """Checks the address and the headers of a request with a form.

  Raises:
    ApiError: settings in the address, another type of content, no length, or too large a one.
  """
  if request.url.query:
    raise ApiError('bad_request', 'send settings as fields of the form, not in the address')
  if request.headers.get('content-type', '').partition(';')[0].strip() != 'multipart/form-data':
    raise ApiError(
      'unsupported_media_type', 'send multipart/form-data with a part "file" or "features.STREAM"'
    )
  length = request.headers.get('content-length')
  if length is None and 'transfer-encoding' not in request.headers:
    raise ApiError('length_required', 'send Content-Length or Transfer-Encoding: chunked')
  if length is not None and int(length) > limits.upload_bytes:  # the HTTP parser checks the digits
    raise _too_large(limits)


async def receive(request: Request, limits: Limits, count: Callable[[int], None]) -> Form:
  """Reads the body of a request; it stops as soon as a limit is exceeded.

  Args:
    request: whose head was checked.
    limits: of its size, its files and its duration.
    count: called with the bytes of each piece.

  Raises:
    ApiError: the body is too large, too slow or no form.
    ClientDisconnect: the client has gone.
  """
  most_files = 2 * limits.files + 32  # streams are files too
  parser = _FormParser(
    request.headers,
    _limited(request, limits, count),
    max_files=most_files,
    max_fields=_MOST_FIELDS,
    max_part_size=_FIELD_BYTES,
  )
  try:
    async with asyncio.timeout(limits.upload_seconds):
      form = await parser.parse()
  except TimeoutError:
    raise ApiError(
      'upload_timeout', f'the body did not arrive within {limits.upload_seconds:g} seconds'
    ) from None
  except (MultiPartException, ValueError, LookupError) as error:
    reason = error.message if isinstance(error, MultiPartException) else 'it is malformed'
    raise ApiError('bad_multipart', f'not a form in multipart/form-data: {reason}') from None
  return _sorted(form.multi_items(), limits)


class _FormParser(MultiPartParser):
  """Starlette's parser, which also refuses a form that is cut short, and names faulty parts."""

  _is_empty = True
  _has_ended = False

  async def _pieces(self, stream: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async for piece in stream:
      self._is_empty = self._is_empty and not piece
      yield piece

  def on_end(self) -> None:
    self._has_ended = True

  async def parse(self) -> FormData:
    self.stream = self._pieces(self.stream)
    try:
      form = await super().parse()
    except MultiPartException as error:
      name = self._current_part.field_name
      place = f' (at or after the part {name[:60]!r})' if name else ''
      raise MultiPartException(error.message.rstrip('.') + place) from None
    if not self._has_ended and not self._is_empty:
      await form.close()
      raise MultiPartException(
        'the form is cut short: its closing boundary is missing; send the whole body, and its '
        'length in Content-Length'
      )
    return form


async def _limited(
  request: Request, limits: Limits, count: Callable[[int], None]
) -> AsyncGenerator[bytes, None]:
  received = 0
  async for piece in request.stream():
    received += len(piece)
    count(len(piece))
    if received > limits.upload_bytes:
      raise _too_large(limits)
    yield piece


def _too_large(limits: Limits) -> ApiError:
  return ApiError('too_large', f'the request is larger than {limits.upload_bytes:,} bytes')


def _sorted(parts, limits: Limits) -> Form:
  files, features, texts = [], {}, {}
  for name, part in parts:
    if isinstance(part, str):
      if name == 'file' or name.startswith(FEATURES):
        raise ApiError('bad_request', f'{name[:60]}: send it as a file, with a file name')
      if name in texts:
        raise ApiError('bad_field', f'{name[:60]}: given twice')
      texts[name] = part
    elif name == 'file':
      files.append(part)
    elif name.startswith(FEATURES):
      if name in features:
        raise ApiError('bad_features', f'{name[:60]}: given twice')
      features[name] = part
    else:
      raise ApiError(
        'unknown_field', f'unknown part {name[:60]!r} with a file; known: file, features.STREAM'
      )
  if files and features:
    raise ApiError('bad_request', 'send clips and pictures, or features, in separate requests')
  if not files and not features:
    raise ApiError('no_input', 'send a part "file", or "features.STREAM" for each stream')
  if len(files) > limits.files:
    raise ApiError('too_large', f'{len(files)} files; at most {limits.files} in a request')
  by_stream = {name.removeprefix(FEATURES): part for name, part in features.items()}
  return Form(tuple(files), by_stream, texts)


async def discard(request: Request, limits: Limits) -> None:
  """Reads the rest of a refused body for a moment, so that the client gets to read the answer.

  A connection that is closed with unread data resets, which may drop the answer.
  """
  if request.headers.get('expect', '').lower() == '100-continue':
    return  # it waits for the answer before it sends the body
  received = 0
  with contextlib.suppress(TimeoutError, ClientDisconnect, RuntimeError):
    async with asyncio.timeout(_DISCARD_SECONDS):
      async for piece in request.stream():
        received += len(piece)
        if received > 2 * limits.upload_bytes:
          return


def file_name(part: UploadFile) -> str:
  """The last part of the name that a client gave a file, without what terminals don't print."""
  name = re.split(r'[/\\]', part.filename or '')[-1]
  name = ''.join(letter for letter in name if letter.isprintable()).strip()
  return name[-_MOST_NAME:] or 'upload'


def video_id(name: str) -> str:
  """The id of a file's video: its name without the ending."""
  return pathlib.PurePosixPath(name).stem or name


async def save(part: UploadFile, name: str, folder: pathlib.Path, number: int) -> pathlib.Path:
  """Writes an uploaded file into a folder, with the ending of its contents.

  Raises:
    ApiError: it is empty, or neither a clip nor a picture.
  """
  copying = asyncio.ensure_future(asyncio.to_thread(_copy, part.file, name, folder, number))
  try:
    return await asyncio.shield(copying)
  except asyncio.CancelledError:
    await asyncio.wait({copying})  # so that nothing is written into a folder that is removed
    raise


def _copy(file: BinaryIO, name: str, folder: pathlib.Path, number: int) -> pathlib.Path:
  start = file.read(media.START_BYTES)
  if not start:
    raise ApiError('bad_file', f'{name}: the file is empty')
  ending = media.ending_of(start)
  if ending is None:
    raise ApiError(
      'unsupported_media_type',
      f'{name}: its content is that of no clip and no picture that is read, whatever its name is; '
      f'known: {", ".join(media.FILE_TYPES)}',
    )
  path = folder / f'{number}{ending}'
  with path.open('wb') as saved:
    saved.write(start)
    shutil.copyfileobj(file, saved)
  return path
