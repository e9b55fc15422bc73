"""Serves captions: a page in the browser, and an API over HTTP.

vidcap serve --checkpoint=runs/mine
curl -F file=@clip.mp4 -F captions=3 http://127.0.0.1:8080/v1/captions
"""

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.errors import UserError
from vidcap_jax.program_name import program_name
from vidcap_jax.serving.settings import MEGABYTE, Capacity, Limits

EPILOG = """\
examples:
  vidcap serve --checkpoint=runs/mine                      then open http://127.0.0.1:8080
  vidcap serve --checkpoint=runs/mine --port=9000 --beams=3,5 --workers=4
  vidcap serve --checkpoint=runs/seed_0,runs/seed_1 --decode=beam=3

  curl -F file=@clip.mp4 http://127.0.0.1:8080/v1/captions
  curl -F features.image=@clip.npy -F method=sample -F captions=3 http://127.0.0.1:8080/v1/captions

docs/serving.md explains the API, limits, and how to put a proxy in front."""


def make_parser() -> argparse.ArgumentParser:
  """The command's arguments."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.serving.command'),
    description='Serves captions: a page in the browser, and an API over HTTP.',
    epilog=EPILOG,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  _add_model(parser.add_argument)
  _add_address(parser.add_argument)
  _add_limits(parser)
  return parser


def _add_model(add: Callable[..., Any]) -> None:
  """Flags of the checkpoint, and of what is compiled for it."""
  add(
    '--checkpoint',
    required=True,
    type=_list_of(str),
    metavar='DIR[,DIR]',
    help='workdir, or step folder RUN/checkpoints/STAGE/STEP; several make an ensemble',
  )
  add('--weights', type=_list_of(float), metavar='W,W', help='of an ensemble (default: equal)')
  add(
    '--decode',
    action='append',
    default=[],
    metavar='KEY=VALUE',
    help="a decoding setting in place of the checkpoint's, as of predict; may be repeated",
  )
  add(
    '--beams',
    type=_list_of(int),
    default=(),
    metavar='N[,N]',
    help="beam widths that requests may choose; each is compiled (default: the checkpoint's)",
  )
  add(
    '--batch_sizes',
    type=_list_of(int),
    default=Capacity().batch_sizes,
    metavar='N[,N]',
    help='videos captioned at a time; each size is compiled (default: 1,8)',
  )


def _add_address(add: Callable[..., Any]) -> None:
  """Flags of where the server listens, and who may use it."""
  add('--port', type=int, default=8080, help='to listen on; 0: any free one (default: %(default)s)')
  add(
    '--host',
    default='127.0.0.1',
    help='address to listen on (default: %(default)s, for this machine only; 0.0.0.0: all)',
  )
  add(
    '--allowed_hosts',
    type=_list_of(str),
    default=(),
    metavar='NAME[,NAME]',
    help='names by which browsers reach the server, as behind a proxy',
  )


def _add_limits(parser: argparse.ArgumentParser) -> None:
  """Flags of ``Limits`` and ``Capacity``."""
  limits, capacity = Limits(), Capacity()
  worker_mb, upload_mb = (n // MEGABYTE for n in (capacity.worker_bytes, limits.upload_bytes))
  numbers = {
    '--captions': ('most captions of a video', limits.captions),
    '--workers': ('processes that decode files', capacity.workers),
    '--requests': ('at work or waiting; more get 429', capacity.requests),
    '--worker_mb': ("megabytes that a file may take of a worker's memory", worker_mb),
    '--upload_mb': ('most megabytes of a request', upload_mb),
    '--files': ('most files of a request', limits.files),
    '--clip_seconds': ('seconds of the longest clip', limits.clip_seconds),
    '--upload_seconds': ('seconds until a request has arrived', limits.upload_seconds),
    '--decoding_seconds': ('seconds until a file is decoded', limits.decoding_seconds),
    '--captioning_seconds': ('seconds until a video is captioned', limits.captioning_seconds),
    '--shutdown_seconds': ('seconds for requests at work when the server is stopped', 60.0),
  }
  for flag, (about, default) in numbers.items():
    _add_number(parser, flag, about, default)
  parser.add_argument(
    '--temp', metavar='DIR', help="folder for uploads while they are read (default: the system's)"
  )


def _add_number(parser: argparse.ArgumentParser, flag: str, about: str, default: float) -> None:
  parser.add_argument(
    flag,
    type=_above_zero(type(default)),
    default=default,
    metavar='N',
    help=f'{about} (default: {default:g})',
  )


def _above_zero(kind: type) -> Callable[[str], Any]:
  def parse(text: str) -> Any:
    value = kind(text)
    if not 0 < value < float('inf'):
      raise argparse.ArgumentTypeError(f'{text}: give a number above 0')
    return value

  parse.__name__ = kind.__name__  # for argparse's message
  return parse


def _list_of(kind: type) -> Callable[[str], tuple]:
  def parse(text: str) -> tuple:
    return tuple(map(kind, text.split(',')))

  parse.__name__ = f'list of {kind.__name__}'
  return parse


def import_libraries() -> None:
  """Imports what the server is made with; ModuleNotFoundError says which extra to install."""
  try:
    import prometheus_client  # noqa: F401
    import python_multipart  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
  except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
      f'{error.name} is needed to serve: install the extra "serve", '
      "pip install 'vidcap_jax[serve]'"
    ) from error


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  given = command_arguments.parse(make_parser(), arguments)
  for flag in ('beams', 'batch_sizes'):
    if any(number < 1 for number in getattr(given, flag)):
      raise UserError(f'--{flag}: give numbers from 1 on')
  if given.temp is not None and not os.path.isdir(given.temp):
    raise UserError(f'--temp={given.temp}: no such folder')
  import_libraries()
  from vidcap_jax.serving import server

  limits = Limits(
    upload_bytes=given.upload_mb * MEGABYTE,
    files=given.files,
    clip_seconds=given.clip_seconds,
    captions=given.captions,
    upload_seconds=given.upload_seconds,
    decoding_seconds=given.decoding_seconds,
    captioning_seconds=given.captioning_seconds,
  )
  capacity = Capacity(
    given.requests, given.workers, given.worker_mb * MEGABYTE, tuple(sorted({*given.batch_sizes}))
  )
  options = server.Options(
    checkpoints=given.checkpoint,
    weights=given.weights,
    decode=tuple(given.decode),
    beams=given.beams,
    host=given.host,
    port=given.port,
    allowed_hosts=given.allowed_hosts,
    temp=given.temp,
    shutdown_seconds=round(given.shutdown_seconds),
  )
  server.serve(options, limits, capacity)


if __name__ == '__main__':
  main()
