"""Starts a server, and ends it: a signal lets it finish what it has begun."""

import asyncio
import dataclasses
import ipaddress
import logging
import os
import signal
import socket
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import uvicorn
from jax.sharding import Mesh

from vidcap_jax.distributed.mesh import make_mesh
from vidcap_jax.errors import DataError, UserError
from vidcap_jax.inference.inputs import find_inputs
from vidcap_jax.inference.members import find_members, joint_provenance, restore_members
from vidcap_jax.models.streams import stream_sizes
from vidcap_jax.serving.app import make_app
from vidcap_jax.serving.media import Source
from vidcap_jax.serving.programs import Programs
from vidcap_jax.serving.service import Service
from vidcap_jax.serving.settings import Capacity, Limits

_CONNECTIONS = 512  # more are answered with 503


@dataclasses.dataclass(frozen=True)
class Options:
  """What is served, and where.

  Attributes:
    checkpoints: workdirs or step folders; several make an ensemble.
    weights: of an ensemble; None: equal weights.
    decode: changes to the decoding settings, see ``restore.restore``.
    beams: widths that requests may choose; (): that of the checkpoint.
    host, port: to listen on; port 0: any that is free.
    allowed_hosts: names of the server besides this machine's.
    temp: folder for uploads; None: that of the system.
    shutdown_seconds: for requests that are being worked on when the server is stopped.
  """

  checkpoints: tuple[str, ...]
  weights: tuple[float, ...] | None = None
  decode: tuple[str, ...] = ()
  beams: tuple[int, ...] = ()
  host: str = '127.0.0.1'
  port: int = 8080
  allowed_hosts: tuple[str, ...] = ()
  temp: str | None = None
  shutdown_seconds: int = 60


def serve(options: Options, limits: Limits, capacity: Capacity) -> None:
  """Serves until SIGTERM or Ctrl-C.

  Raises:
    UserError: no such checkpoint, settings that don't fit it, or workers that can't start.
    OSError: the address can't be used.
  """
  # Until ``_Server.run``. An exception could be lost, as in a callback of the garbage collector.
  signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
  if options.temp:
    tempfile.tempdir = options.temp  # Starlette's files of uploads are there, too
  logging.getLogger('python_multipart').setLevel(logging.ERROR)  # it logs each malformed body
  with _listen(options) as listening:  # before the model is loaded, which takes long
    service = make_service(options, limits, capacity)
    server = _Server(service, options)
    try:
      server.run([listening])
    finally:
      service.close()
  if server.is_starting:
    os._exit(0)  # a compilation can't be interrupted, and the interpreter would wait for its thread
  if server.error is not None:
    raise server.error


def make_service(
  options: Options, limits: Limits, capacity: Capacity, mesh: Mesh | None = None
) -> Service:
  """Restores checkpoints; nothing is compiled yet."""
  paths = find_members(options.checkpoints, options.weights)
  members = restore_members(paths, mesh or make_mesh(), options.decode)
  provenance = joint_provenance(members)
  beams = options.beams or (members[0].config.decode.beam,)
  programs = Programs(members, options.weights, beams, limits.captions, capacity.batch_sizes)
  frames: dict[str, tuple[int, int]] = {}
  for member in members:
    needs = member.module.config.needs
    for name, size in stream_sizes(member.streams, member.config, needs).items():
      most, _ = frames.get(name, (0, 1))
      frames[name] = (max(most, *size[:1], 0), needs.blocks.get(name, 1))
  source = Source(provenance, frames, limits)
  return Service(programs, source, capacity, _reads_files(provenance))


def _reads_files(provenance) -> bool:
  """Whether features can be made of files; if not, a line says why."""
  try:
    find_inputs(provenance, ['clip.mp4', 'picture.png'])
  except DataError as error:
    _log(f'only features can be sent, no clips and pictures: {error}')
    return False
  return True


class _Server(uvicorn.Server):
  """uvicorn's server, which exits with 0 after a signal.

  Attributes:
    error: why the service could not start; None if it could.
    is_starting: whether the thread that starts it runs.
  """

  def __init__(self, service: Service, options: Options):
    self.error: Exception | None = None
    self.is_starting = False
    self._service = service
    config = uvicorn.Config(
      make_app(service, options.allowed_hosts, self._start),
      host=options.host,
      port=options.port,
      loop='asyncio',
      http='h11',
      ws='none',
      lifespan='on',
      log_level='error',
      access_log=False,
      server_header=False,
      proxy_headers=False,
      limit_concurrency=_CONNECTIONS,
      timeout_graceful_shutdown=options.shutdown_seconds,
    )
    super().__init__(config)

  def run(self, sockets: list[socket.socket] | None = None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn raises them again at the end
      signal.signal(number, self._stop_before_the_start)
    assert sockets
    host, port = sockets[0].getsockname()[:2]
    _warn_of_others(host)
    shown = f'[{host}]' if ':' in host else host
    _log(f'http://{shown}:{port}')
    super().run(sockets)

  def _stop_before_the_start(self, sig, frame) -> None:
    self.should_exit = True

  def handle_exit(self, sig, frame) -> None:
    if self._service.state == 'ready':
      self._service.state = 'stopping'
    super().handle_exit(sig, frame)

  async def _start(self) -> None:
    """Compiles in the background while the server listens."""
    thread = ThreadPoolExecutor(1)  # not asyncio's own, for which it waits at its end
    try:
      await asyncio.get_running_loop().run_in_executor(thread, self._start_service)
    except Exception as error:
      if self._service.state != 'stopping':  # which ends workers that are starting
        self.error, self.should_exit = error, True
    else:
      if self._service.state == 'ready':
        _log('ready')

  def _start_service(self) -> None:
    self.is_starting = True
    try:
      self._service.start(_log)
    finally:
      self.is_starting = False


def _listen(options: Options) -> socket.socket:
  """A socket that listens; UserError if the address can't be used."""
  family = socket.AF_INET6 if ':' in options.host else socket.AF_INET
  try:
    return socket.create_server((options.host, options.port), family=family, backlog=_CONNECTIONS)
  except (OSError, OverflowError) as error:
    reason = getattr(error, 'strerror', None) or str(error).rstrip('.')
    raise UserError(
      f"--host={options.host} --port={options.port}: can't listen there: {reason}; give others, "
      'or --port=0 for any free port'
    ) from None


def _warn_of_others(host: str) -> None:
  if not ipaddress.ip_address(host.partition('%')[0]).is_loopback:
    _log(
      f'warning: --host={host} lets other machines use this server, without a password; put a '
      'proxy with one in front of it (docs/serving.md)'
    )


def _log(text: str) -> None:
  print(f'vidcap serve: {text}', file=sys.stderr, flush=True)
