"""Damaged, wrong and hostile uploads get a clear answer, and don't disturb a good request."""

import concurrent.futures
import contextlib
import io
import pickle
import random
import struct
import threading
import zipfile
import zlib

import numpy as np
import pytest

from tests import http_forms
from tests.http_forms import Part, parts_of, post

SEED = 20


def png(width: int, height: int, data: bytes = b'') -> bytes:
  """A PNG that declares a size, with correct checksums."""

  def chunk(kind: bytes, content: bytes) -> bytes:
    checksum = zlib.crc32(kind + content)
    return struct.pack('>I', len(content)) + kind + content + struct.pack('>I', checksum)

  header = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
  chunks = chunk(b'IHDR', header), chunk(b'IDAT', zlib.compress(data)), chunk(b'IEND', b'')
  return b'\x89PNG\r\n\x1a\n' + b''.join(chunks)


def npy(header: str, data: bytes = b'', version: bytes = b'\x01\x00') -> bytes:
  text = header.encode() + b'\n'
  size = struct.pack('<H' if version == b'\x01\x00' else '<I', len(text))
  return b'\x93NUMPY' + version + size + text + data


def descr(shape: str, dtype: str = '<f4') -> str:
  return f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}"


class Evil:
  def __reduce__(self):
    return (print, ('code of a stranger runs',))


def saved(array, **settings) -> bytes:
  file = io.BytesIO()
  np.save(file, array, **settings)
  return file.getvalue()


PLAYLISTS = {
  'a.mp4': b'#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n',
  'b.mp4': b'ffconcat version 1.0\nfile /etc/passwd\n',
  'c.avi': (
    b'RIFF\x00\x00\x00\x00AVI <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" profiles="urn:mpeg:dash:'
    b'profile:isoff-on-demand:2011"><BaseURL>file:///etc/passwd</BaseURL></MPD>'
  ),
  'd.sdp': b'v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n',
  'e.svg': b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
  'f.eps': b'%!PS-Adobe-3.0 EPSF-3.0\n(/etc/passwd) (r) file run\n',
}


def hostile_files(samples: dict[str, bytes]) -> list[tuple[str, bytes]]:
  """Files that can't be captioned."""
  rng = random.Random(SEED)
  files = [*PLAYLISTS.items()]
  files += [('empty.mp4', b''), ('text.mp4', b'no video'), ('page.png', b'<html>' * 99)]
  for size in ((100_000, 100_000), (2**31 - 1, 2**31 - 1), (30_000_000, 1), (0, 0)):
    files.append((f'{size[0]}.png', png(*size)))
  files.append(('bomb.png', png(20_000, 20_000, bytes(2**22))))
  files += [('huge.mp4', bytes(3 * 2**20)), ('huge.png', png(8, 8) + rng.randbytes(3 * 2**20))]
  archive = io.BytesIO()
  with zipfile.ZipFile(archive, 'w', zipfile.ZIP_DEFLATED) as archived:
    archived.writestr('x', bytes(10**6))
  files += [('a.zip', archive.getvalue()), ('a.pkl', pickle.dumps(Evil())), ('a.elf', b'\x7fELF')]
  for name, content in samples.items():
    # Cut before any frame is complete.
    lengths = rng.sample(range(4, min(200, len(content) // 4)), 10)
    files += [(name, content[:length]) for length in lengths]
    for _ in range(11):  # the right beginning, and noise
      kept = rng.randrange(12, 32)
      files.append((name, content[:kept] + rng.randbytes(rng.randrange(1, 5000))))
    files.append((name, bytes(len(content))))
    files.append((f'../../{name}\r\n<script>', content[:20] + b'\xff' * 1000))
  return files


def hostile_features() -> list[bytes]:
  """Features in NumPy's format, or what pretends to be."""
  good = saved(np.ones((3, 128), np.float32))
  data = bytes(3 * 128 * 4)
  return [
    *(b'', b'\x93NUMPY', good[:40], good[:-4], good + b'x', b'not an array', pickle.dumps(Evil())),
    saved(np.array([Evil()], object), allow_pickle=True),
    saved(np.array(['text'])),
    saved(np.ones((3, 128), complex)),
    saved(np.ones((3, 128), bool)),
    saved(np.zeros((3, 128), [('a', 'f4'), ('b', 'O')])),
    saved(np.ones((3, 127), np.float32)),
    saved(np.ones(128, np.float32)),
    saved(np.float32(1)),
    saved(np.ones((0, 128), np.float32)),
    saved(np.full((3, 128), np.nan, np.float32)),
    saved(np.full((3, 128), np.inf, np.float32)),
    saved(np.full((3, 128), 1e30, np.float32)),
    npy(descr('(1000000000000, 128)'), data),
    npy(descr('(-3, -128)'), data),
    npy(descr(f'({2**63}, {2**63})'), data),
    npy(descr('(3, 128)', '|O'), data),
    npy(descr('(3, 128)', '<f4'), data, b'\x09\x00'),
    npy('{' * 500, data),
    npy('-' * 60_000 + '1', data),
    npy("__import__('os').system('true')", data),
    npy(descr('(3, 128)') + ' ' * 100_000, data, b'\x02\x00'),
    npy(descr(f'({"1, " * 100})'), bytes(4)),
  ]


@pytest.fixture(scope='module')
def samples(workspace, tmp_path_factory) -> dict[str, bytes]:
  """Good files of several formats."""
  from PIL import Image

  from tests.video_files import ramp, write_video

  folder = tmp_path_factory.mktemp('samples')
  write_video(folder / 'a.mkv', ramp(8), container='matroska')
  write_video(folder / 'a.avi', ramp(8), container='avi')
  write_video(folder / 'a.ts', ramp(8), container='mpegts', codec='mpeg2video')
  rng = np.random.default_rng(0)
  noise = Image.fromarray(rng.integers(0, 255, (64, 64, 3), np.uint8))
  for ending in ('png', 'jpg', 'webp'):
    noise.save(folder / f'a.{ending}')
  found = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
  return {'a.mp4': (workspace / 'clip.mp4').read_bytes(), **found}


@contextlib.contextmanager
def steady_client(url: str, form: list[Part]):
  """Sends a good request again and again until the block ends; yields the answers so far."""
  answers: list[http_forms.Answer] = []
  ended = threading.Event()

  def send():
    while not ended.is_set():
      answers.append(post(url, form))

  with concurrent.futures.ThreadPoolExecutor(1) as pool:
    sending = pool.submit(send)
    try:
      yield answers
    finally:
      ended.set()
  sending.result()


def test_two_hundred_get_a_clear_answer_and_disturb_no_good_request(server, samples):
  good = parts_of([('a.mp4', samples['a.mp4'])])
  expected = post(server.url, good).json['results'][0]
  forms: list[list[Part]] = [parts_of([file]) for file in hostile_files(samples)]
  forms += [[('features.image', 'a.npy', content)] for content in hostile_features()]
  assert len({http_forms.body_of(form) for form in forms}) == len(forms) >= 200
  replaced = [f'vidcap_workers_replaced_total{{reason="{why}"}}' for why in ('died', 'timeout')]
  before = [server.metric(name) for name in replaced]
  with (
    steady_client(server.url, good) as good_answers,
    concurrent.futures.ThreadPoolExecutor(4) as pool,
  ):
    answers = list(pool.map(lambda form: post(server.url, form), forms))
  assert len(good_answers) >= 20
  assert {answer.status for answer in good_answers} == {200}
  assert all(answer.json['results'][0] == expected for answer in good_answers)
  for number, (form, answer) in enumerate(zip(forms, answers, strict=True)):
    shown = f'{number}: {form[0][1]}'
    assert answer.status in (400, 413, 415, 422), f'{shown}: {answer.status} {answer.body[:300]}'
    assert answer.json['error']['message']
    assert str(server.temp).encode() not in answer.body
    assert b'Traceback' not in answer.body
  assert [server.metric(name) for name in replaced] == before
  assert server.uploads() == []
  log = server.log.read_text()
  assert 'code of a stranger' not in log
  assert 'Traceback' not in log


def test_a_form_that_is_cut_short_is_refused(server, samples):
  body = http_forms.body_of(parts_of([('a.png', samples['a.png']), ('b.png', samples['a.png'])]))
  kind = f'multipart/form-data; boundary={http_forms.BOUNDARY}'
  second, end = body.rindex(b'name="file"'), len(body) - len('--\r\n')
  for cut in (5, 60, second - 90, second - 5, second + 9, second + 200, end - 30, end, end + 1):
    answer = http_forms.request(server.url, 'POST', '/v1/captions', body[:cut], Content_Type=kind)
    assert (answer.status, answer.code) == (400, 'bad_multipart'), f'cut at {cut}: {answer.body!r}'
    if cut >= second:
      assert 'cut short' in answer.json['error']['message']
  assert server.uploads() == []


def test_faults_of_a_form_name_the_part(server, samples):
  answer = post(server.url, parts_of([('a.png', samples['a.png'])], beam='1' * 5000))
  assert (answer.status, answer.code) == (400, 'bad_multipart')
  assert 'beam' in answer.json['error']['message']


def test_flipped_bits_get_captions_or_a_clear_answer(server, samples):
  rng = random.Random(SEED)
  files = []
  for name, content in samples.items():
    for _ in range(4):
      damaged = bytearray(content)
      for _ in range(rng.choice((1, 8, 64))):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
      files.append((name, bytes(damaged)))
  with concurrent.futures.ThreadPoolExecutor(4) as pool:
    answers = list(pool.map(lambda file: post(server.url, parts_of([file])), files))
  for answer in answers:
    assert answer.status == 200 or 400 <= answer.status < 500, answer.body
  assert server.uploads() == []
