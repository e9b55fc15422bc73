"""Requests and their times, with an HTTP server that answers as the test wants."""

import contextlib
import email
import http.server
import json
import threading

import pytest

from benchmarks.http_load import Client, Upload, run_load
from vidcap_jax.errors import UserError

UPLOADS = [Upload(name, (('file', f'{name}.mp4', b'\r\n--\0'),), {'beam': '3'}) for name in 'abc']


@pytest.fixture
def served():
  """Starts servers that answer by a function: (names of parts, number) -> status, JSON."""
  with contextlib.ExitStack() as stack:

    def start(answer) -> str:
      seen: list[dict[str, bytes]] = []

      class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'
        log_message = lambda *_: None  # noqa: E731

        def do_POST(self):
          kind = f'Content-Type: {self.headers["Content-Type"]}\r\n\r\n'.encode()
          form = email.message_from_bytes(
            kind + self.rfile.read(int(self.headers['Content-Length']))
          )
          parts = {}
          for part in form.get_payload():
            name = part.get_param('name', header='content-disposition')
            parts[name] = part.get_payload(decode=True)
            if part.get_filename():
              parts['file name'] = part.get_filename()
          seen.append(parts)
          status, body = answer(parts, len(seen))
          text = json.dumps(body).encode()
          self.send_response(status)
          self.send_header('Content-Length', str(len(text)))
          self.send_header('Retry-After', '0.01')
          self.end_headers()
          self.wfile.write(text)

      server = stack.enter_context(http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler))
      stack.callback(server.shutdown)
      threading.Thread(target=server.serve_forever).start()
      return f'http://127.0.0.1:{server.server_port}'

    yield start


def captions(parts, number=0):
  return 200, {'results': [{'caption': parts['file name']}]}


def test_what_is_sent_and_that_all_clients_take_part_in_turn(served):
  forms = []

  def answer(parts, number):
    forms.append(parts)
    return captions(parts)

  counted = []
  answers, elapsed = run_load(served(answer), UPLOADS, 3, 10, 60.0, counted.append)
  assert len(answers) == 10
  assert counted == list(range(1, 11))
  assert all(answer.results == [{'caption': f'{answer.name}.mp4'}] for answer in answers)
  assert sorted(answer.name for answer in answers) == sorted('abcabcabca')
  assert all(form['beam'] == b'3' and form['file'] == b'\r\n--\0' for form in forms)
  assert 0 < max(answer.seconds for answer in answers) <= elapsed


def test_a_busy_server_is_asked_again_and_the_time_counts(served):
  url = served(lambda parts, number: (429, {}) if number < 4 else captions(parts))
  with contextlib.closing(Client(url)) as client:
    answer = client.caption(UPLOADS[0])
  assert answer.retries == 3
  assert answer.seconds > 0.03


def test_the_first_error_stops_all_clients(served):
  url = served(
    lambda parts, number: (500, {'error': 'internal'}) if number == 2 else captions(parts)
  )
  with pytest.raises(UserError, match='500.*internal'):
    run_load(url, UPLOADS, 2, 10**6, 600.0)


def test_no_more_requests_after_the_time(served):
  answers, elapsed = run_load(served(captions), UPLOADS, 2, 10**9, 0.3)
  assert answers
  assert elapsed < 60


def test_no_server_and_no_url():
  with pytest.raises(UserError, match='127.0.0.1:9'):
    run_load('http://127.0.0.1:9', UPLOADS, 1, 1, 10.0)
  with pytest.raises(UserError, match='--url=ftp'):
    run_load('ftp://a', UPLOADS, 1, 1, 10.0)
