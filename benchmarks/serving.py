"""The speed, memory and captions of ``vidcap serve`` under load.

  python -m benchmarks.serving --checkpoint=RUN --json=FILE
  python -m benchmarks.serving --checkpoint=RUN --memory
  python -m benchmarks.serving --url=http://127.0.0.1:8080

With --checkpoint alone the server is started on a free port, and stopped at the end; with --url a
server that runs already is measured. Clients send one request at a time each: rendered clips or
those of --clips if the model reads files, and random features. For each kind and number of clients
there are captions a second, and the time from the start of a request to its answer: the median
(p50) and the time that 95 % of the requests take at most (p95). A request that the server was too
busy for is sent again after the time that it names; that time counts. --requests and --seconds
bound each measurement.

With --checkpoint, captions of the server are compared with those of vidcap_jax.load. With --memory,
small requests are sent instead, and the resident memory of the server's processes after 500 is
compared with that at the end.
"""

import argparse
import contextlib
import io
import math
import pathlib
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import vidcap_jax as vc
from benchmarks import Row, add_json, report
from benchmarks.http_load import Answer, Client, Upload, run_load
from benchmarks.server_process import Server, resident_bytes, start_server
from data_prep.synthetic import render, shapes
from vidcap_jax import command_errors
from vidcap_jax.errors import UserError

CLIPS = 10  # that are rendered; as many features are drawn
STEPS = 8  # rows of an axis of features whose length is free
EARLY = 500  # requests after which memory is measured first
FLAT = 1.05  # most of the later memory to the earlier


def quantile(times: Sequence[float], share: float) -> float:
  """The smallest of the times that this share of them does not exceed."""
  return sorted(times)[max(0, math.ceil(share * len(times)) - 1)]


def clip_uploads(folder: pathlib.Path, paths: Sequence[str]) -> list[Upload]:
  """Uploads of video files; without paths, of clips that are rendered into the folder."""
  files = [pathlib.Path(path) for path in paths]
  if not files:
    for clip in shapes.plan(CLIPS):
      files.append(folder / f'{clip.video_id}.mp4')
      render.write(clip, files[-1])
  return [Upload(file.stem, (('file', file.name, file.read_bytes()),)) for file in files]


def draw_features(streams: Sequence[Mapping[str, Any]]) -> list[dict[str, np.ndarray]]:
  """Random features of a few videos, for the streams that the server lists."""
  rng = np.random.default_rng(0)
  return [
    {
      stream['name']: rng.normal(size=[size or STEPS for size in stream['shape']]).astype(
        np.float32
      )
      for stream in streams
    }
    for _ in range(CLIPS)
  ]


def feature_uploads(videos: Sequence[Mapping[str, np.ndarray]]) -> list[Upload]:
  """Uploads of features, one video each, named by their number."""
  uploads = []
  for i, streams in enumerate(videos):
    files = []
    for name, array in streams.items():
      buffer = io.BytesIO()
      np.save(buffer, array)
      files.append((f'features.{name}', f'{name}.npy', buffer.getvalue()))
    uploads.append(Upload(str(i), tuple(files)))
  return uploads


def load_rows(name: str, clients: int, answers: Sequence[Answer], elapsed: float) -> list[Row]:
  """Throughput and times of one measurement."""
  if not answers:
    raise UserError(f'{name}, {clients} clients: no answer within --seconds; raise it')
  label = f'{name}, {clients} client{"s" * (clients > 1)}'
  times = [answer.seconds for answer in answers]
  rows = [Row(f'{label}: throughput', len(answers) / elapsed, 'captions/s')]
  for share in (0.5, 0.95):
    rows.append(Row(f'{label}: p{100 * share:.0f}', 1000 * quantile(times, share), 'ms'))
  if retries := sum(answer.retries for answer in answers):
    rows.append(Row(f'{label}: answers with status 429', retries))
  return rows


def expected_captions(
  checkpoint: str, clips: Sequence[Upload], videos: Sequence[Mapping[str, np.ndarray]]
) -> dict[tuple[str, str], str | None]:
  """(kind, name) -> the caption that the Python API makes."""
  captioner = vc.load(checkpoint)
  results = captioner.caption(features=videos, progress=False)
  found = {('features', result.video_id): result.caption for result in results}
  if clips:
    with tempfile.TemporaryDirectory() as folder:
      paths = []
      for upload in clips:
        ((_, name, contents),) = upload.files
        paths.append(pathlib.Path(folder) / name)
        paths[-1].write_bytes(contents)
      results = captioner.caption(paths, progress=False)
    found |= {('clips', result.video_id): result.caption for result in results}
  return found


def measure_load(
  url: str,
  uploads: Mapping[str, Sequence[Upload]],
  options: argparse.Namespace,
  expected: Mapping[tuple[str, str], str | None],
) -> list[Row]:
  """The rows of all kinds of uploads and numbers of clients."""
  rows, compared, different = [], 0, 0
  for kind, kind_uploads in uploads.items():
    run_load(url, kind_uploads, 1, 2, options.seconds)  # not timed
    for clients in options.clients:
      answers, elapsed = run_load(url, kind_uploads, clients, options.requests, options.seconds)
      rows += load_rows(kind, clients, answers, elapsed)
      for answer in answers if expected else ():
        compared += 1
        different += answer.results[0]['caption'] != expected[kind, answer.name]
  if expected:
    rows.append(Row('captions compared with vidcap_jax.load', compared))
    rows.append(Row('captions that differ', different, goal=0, met=not different))
  return rows


def measure_memory(
  server: Server, uploads: Sequence[Upload], clients: int, requests: int, seconds: float
) -> list[Row]:
  """The resident memory of the server's processes after ``EARLY`` requests and at the end."""
  measured: list[int] = []

  def after(done: int) -> None:
    if done == EARLY:
      measured.append(resident_bytes(server.process.pid))

  answers, elapsed = run_load(server.url, uploads, clients, requests, seconds, after)
  if not measured:
    raise UserError(
      f'--memory={requests}: {len(answers)} answers in {elapsed:.0f} s, and memory is measured '
      f'after {EARLY}; raise --memory or --seconds'
    )
  early, late = measured[0], resident_bytes(server.process.pid)
  ratio = late / early
  return [
    Row('requests', len(answers)),
    Row('throughput', len(answers) / elapsed, 'captions/s'),
    Row(f'memory after {EARLY} requests', early / 2**20, 'MiB'),
    Row('memory at the end', late / 2**20, 'MiB', ratio, FLAT, ratio <= FLAT),
  ]


@contextlib.contextmanager
def _server(options: argparse.Namespace) -> Iterator[tuple[str, Server | None]]:
  if options.url:
    yield options.url, None
  else:
    with (
      tempfile.TemporaryDirectory() as folder,
      start_server(pathlib.Path(folder), options.checkpoint) as server,
    ):
      yield server.url, server


def measure(options: argparse.Namespace) -> list[Row]:
  """All rows; see the module's docstring."""
  with tempfile.TemporaryDirectory() as folder, _server(options) as (url, server):
    ready_seconds = server.wait_until_ready() if server else None
    with contextlib.closing(Client(url)) as client:
      model = client.read_json('/v1/model')
    uploads = {}
    if model['reads_files']:
      uploads['clips'] = clip_uploads(pathlib.Path(folder), options.clips)
    videos = draw_features(model['streams'])
    uploads['features'] = feature_uploads(videos)
    if options.memory:
      small = [upload for kind in uploads.values() for upload in kind]
      clients = max(options.clients)
      return measure_memory(server, small, clients, options.memory, options.seconds)
    expected = {}
    if options.checkpoint:
      expected = expected_captions(options.checkpoint, uploads.get('clips', ()), videos)
    rows = [Row('ready after', ready_seconds, 's')] if ready_seconds else []
    return rows + measure_load(url, uploads, options, expected)


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog='python -m benchmarks.serving',
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--checkpoint', help='of the server that is started, or of the one at --url')
  add('--url', help='of a server that runs')
  add('--clips', nargs='+', default=[], metavar='FILE', help='default: rendered ones')
  add(
    '--clients', type=lambda text: [int(part) for part in text.split(',')], default=[1, 4, 16],
    help='at once (1,4,16)',
  )  # fmt: skip
  add('--requests', type=int, default=200, help='most of a measurement (%(default)s)')
  add('--seconds', type=float, default=0.0, help='most of a measurement (60; with --memory 1800)')
  add(
    '--memory', type=int, nargs='?', const=5000, default=0, metavar='REQUESTS',
    help='measure memory over so many requests (%(const)s)',
  )  # fmt: skip
  add_json(parser)
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> int:
  """The command; 1 if a goal is missed."""
  parser = _parser()
  options = parser.parse_args(arguments)
  if not options.checkpoint and not options.url:
    parser.error('give --checkpoint, --url or both')
  if options.memory and (options.url or not options.checkpoint):
    parser.error(
      '--memory measures the processes of a server that it starts: give --checkpoint only'
    )
  if min(options.clients) < 1 or options.requests < 1 or options.memory < 0 or options.seconds < 0:
    parser.error('--clients, --requests, --memory and --seconds: must be more than 0')
  for path in options.clips:
    if not pathlib.Path(path).is_file():
      parser.error(f'--clips={path}: no such file')
  options.seconds = options.seconds or (1800.0 if options.memory else 60.0)
  return 0 if report(measure(options), options.json) else 1


if __name__ == '__main__':
  sys.exit(main())
