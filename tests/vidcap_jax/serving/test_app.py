"""The routes of a running server, and what requests get under load."""

import concurrent.futures
import io
import json
import os
import signal
import socket

import numpy as np
import pytest

import vidcap_jax as vc
from tests import http_forms
from tests.http_forms import get, parts_of, post

CHANGES = (
  {},
  {'method': 'greedy'},
  {'method': 'beam', 'captions': 2},
  {'length_penalty': 0.8},
  {'method': 'sample', 'temperature': 0.7, 'top_k': 5, 'top_p': 0.9},
)


@pytest.fixture(scope='module')
def clips(workspace) -> list[tuple[str, bytes]]:
  names = ('clip.mp4', 'folder/b.mp4', 'folder/c.mp4', 'short.mp4', 'photo.png')
  return [(name.rpartition('/')[2], (workspace / name).read_bytes()) for name in names]


@pytest.fixture(scope='module')
def captioner(run_folder):
  return vc.load(run_folder)


@pytest.fixture(scope='module')
def expected(captioner, workspace):
  """Captions as of ``vidcap predict``, for each of ``CHANGES``."""
  inputs = [workspace / name for name in ('clip.mp4', 'folder/b.mp4', 'folder/c.mp4')]
  inputs += [workspace / name for name in ('short.mp4', 'photo.png')]
  return [captioner.caption(inputs, progress=False, **changes) for changes in CHANGES]


def npy(array, **settings) -> bytes:
  file = io.BytesIO()
  np.save(file, array, **settings)
  return file.getvalue()


def check(answer, expected) -> None:
  assert answer.status == 200, answer.body
  for result, correct in zip(answer.json['results'], expected, strict=True):
    assert result['error'] is None
    assert (result['video_id'], result['caption']) == (correct.video_id, correct.caption)
    assert result['log_prob'] == pytest.approx(correct.log_prob, abs=1e-3)
    candidates = [each.caption for each in correct.captions]
    assert [each['caption'] for each in result['captions']] == candidates


def test_captions_are_those_of_predict_for_many_threads(server, clips, expected):
  jobs = [(clips, changes, correct) for changes, correct in zip(CHANGES, expected, strict=True)]
  # Samples of a lone file are those of the first video of a list.
  jobs += [
    ([clip], CHANGES[i % 3], [expected[i % 3][n]]) for i, clip in enumerate(clips) for n in [i]
  ]
  with concurrent.futures.ThreadPoolExecutor(6) as pool:
    answers = pool.map(lambda job: post(server.url, parts_of(job[0], **job[1])), jobs * 2)
    for answer, (_, _, correct) in zip(answers, jobs * 2, strict=True):
      check(answer, correct)


def test_requests_share_batches(server, clips):
  count, total = 'vidcap_batch_videos_count', 'vidcap_batch_videos_sum'
  before = server.metric(count), server.metric(total)
  features = [('features.image', 'a.npy', npy(np.ones((3, 128), np.float32)))]
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for answer in pool.map(lambda _: post(server.url, features), range(40)):
      assert answer.status == 200
  batches, videos = server.metric(count) - before[0], server.metric(total) - before[1]
  assert videos == 40
  assert batches < 40


def test_nothing_is_compiled_after_the_start(server, clips):
  for changes in ({'attention': 'true'}, {'top_k': 3, 'captions': 2}, {'captions': 2}, {'seed': 9}):
    assert post(server.url, parts_of(clips, **changes)).status == 200
    assert post(server.url, parts_of(clips[:1], **changes)).status == 200
  for frames in (1, 2, 9):
    array = npy(np.ones((frames, 128), np.float16))
    assert post(server.url, [('features.image', 'a.npy', array)]).status == 200
  for process in ('server', 'worker'):
    assert server.metric(f'vidcap_programs_compiled_total{{process="{process}"}}') == 0


def test_features_are_captioned_as_by_predict(server, captioner):
  features = {'image': np.linspace(0, 1, 4 * 128, dtype=np.float32).reshape(4, 128)}
  answer = post(server.url, [('features.image', 'mine.npy', npy(features['image']))])
  check(answer, captioner.caption(features=features, ids=['mine'], progress=False))


def test_attention(server, clips, captioner, workspace):
  answer = post(server.url, parts_of([clips[0], clips[-1]], attention='true'))
  shown, picture = (result['attention'] for result in answer.json['results'])
  [result] = captioner.caption(workspace / 'clip.mp4', attention=True, progress=False)
  [drawn] = shown['maps']
  weights = result.attention['temporal'].weights
  np.testing.assert_allclose(drawn['weights'], weights, atol=1e-4)
  np.testing.assert_allclose(drawn['over_frames'], weights, atol=1e-4)
  assert shown['words'] == list(result.words)
  assert drawn['frames'] == [0, 1, 2]
  times = [frame['time'] for frame in shown['frames']]
  assert times == sorted(times)
  for frame in (*shown['frames'], *picture['frames']):
    assert frame['picture'].startswith('data:image/jpeg;base64,/9j/')
  assert [frame['time'] for frame in picture['frames']] == [None]


def test_samples_depend_on_the_seed(server, clips):
  def sample(seed):
    answer = post(server.url, parts_of(clips[:1], method='sample', seed=seed, temperature=3))
    return answer.json['results'][0]['caption']

  assert len({sample(seed) for seed in range(6)}) > 1
  assert sample(3) == sample(3)


def test_a_bad_file_does_not_stop_the_others(server, clips, expected):
  answer = post(server.url, parts_of([clips[0], ('bad/../x.mp4', b'no video'), clips[1]]))
  assert answer.status == 200
  first, bad, second = answer.json['results']
  assert (first['caption'], second['caption']) == (expected[0][0].caption, expected[0][1].caption)
  assert (bad['video_id'], bad['caption'], bad['captions']) == ('x', None, [])
  assert bad['error']['code'] == 'unsupported_media_type'


def test_more_requests_than_places_get_429(server, clips):
  with concurrent.futures.ThreadPoolExecutor(8) as pool, server.stopped_workers():
    waiting = [pool.submit(post, server.url, parts_of(clips[:1])) for _ in range(8)]
    server.wait_for('vidcap_requests_in_progress', 8)
    refused = post(server.url, parts_of(clips[:1]))
    os.kill(server.process.pid, 0)
    for worker in server.workers():
      os.kill(worker, signal.SIGCONT)
    assert (refused.status, refused.code) == (429, 'busy')
    assert 1 <= int(refused.headers['retry-after']) <= 60
    assert {future.result().status for future in waiting} == {200}


def test_a_client_that_goes_away_leaves_nothing(server, clips):
  body = http_forms.body_of(parts_of(clips[:1]))
  head = (
    'POST /v1/captions HTTP/1.1\r\nHost: localhost\r\n'
    f'Content-Type: multipart/form-data; boundary={http_forms.BOUNDARY}\r\n'
    f'Content-Length: {len(body)}\r\n\r\n'
  )
  host, _, port = server.url.removeprefix('http://').partition(':')
  for sent in (body, body[: len(body) // 2]):  # while it is decoded, and while it is sent
    with server.stopped_workers():
      with socket.create_connection((host, int(port))) as connection:
        connection.sendall(head.encode() + sent)
        server.wait_for('vidcap_requests_in_progress', 1)
      server.wait_for('vidcap_requests_in_progress', 0)
      assert server.uploads() == []
  assert post(server.url, parts_of(clips[:1])).status == 200


def test_a_worker_that_is_killed_costs_only_its_file(server, clips, expected):
  name = 'vidcap_workers_replaced_total{reason="died"}'
  before = server.metric(name)
  with concurrent.futures.ThreadPoolExecutor(1) as pool, server.stopped_workers() as workers:
    lost = pool.submit(post, server.url, parts_of(clips[:1]))
    server.wait_for('vidcap_requests_in_progress', 1)
    features = [('features.image', 'a.npy', npy(np.ones((3, 128), np.float32)))]
    assert post(server.url, features).status == 200  # needs no worker
    for worker in workers:
      os.kill(worker, signal.SIGKILL)
    answer = lost.result()
  assert (answer.status, answer.code) == (422, 'decoding_failed')
  # The other worker died while it had nothing to do: the next job waits for a new one.
  answers = [post(server.url, parts_of(clips[:1])) for _ in range(3)]
  assert [answer.status for answer in answers] == [200] * 3
  check(answers[-1], [expected[0][0]])
  assert server.metric(name) - before == 2
  assert server.uploads() == []


def test_statuses_of_wrong_requests(server, clips):
  def answer_of(method, path, body=None, **headers):
    answer = http_forms.request(server.url, method, path, body, **headers)
    assert str(server.temp) not in answer.body.decode()
    return answer.status, answer.code

  form = {'Content_Type': f'multipart/form-data; boundary={http_forms.BOUNDARY}'}
  body = http_forms.body_of(parts_of(clips[:1]))
  assert answer_of('GET', '/v1/captions') == (405, 'method_not_allowed')
  assert answer_of('POST', '/v1/model', b'') == (405, 'method_not_allowed')
  assert answer_of('GET', '/v2') == (404, 'not_found')
  assert answer_of('POST', '/v1/captions', b'{}') == (415, 'unsupported_media_type')
  assert answer_of('POST', '/v1/captions', b'', **form)[0] == 422
  assert answer_of('POST', '/v1/captions', body[:50], **form) in [
    (400, 'bad_multipart'),
    (422, 'no_input'),
  ]
  assert answer_of('POST', '/v1/captions', b'\r\n' + body[5:], **form) == (400, 'bad_multipart')
  no_boundary = {'Content_Type': 'multipart/form-data'}
  assert answer_of('POST', '/v1/captions', body, **no_boundary) == (400, 'bad_multipart')
  for origin in ('http://example.org', 'null', server.url.replace('127.0.0.1', 'localhost')):
    refused = answer_of('POST', '/v1/captions', body, Origin=origin, **form)
    assert refused == (403, 'forbidden_origin')
  own = {'Origin': server.url, **form}
  assert http_forms.request(server.url, 'POST', '/v1/captions', body, **own).status == 200
  assert answer_of('GET', '/healthz', Host='example.org') == (403, 'forbidden_host')


def test_settings_in_the_address_are_refused(server):
  """They would be ignored."""
  answer = http_forms.request(server.url, 'POST', '/v1/captions?beam=3', b'')
  assert (answer.status, answer.code) == (400, 'bad_request')
  assert 'fields of the form' in answer.json['error']['message']


def test_a_body_without_a_length_is_refused(server):
  connection = http_forms.connect(server.url)
  connection.putrequest('POST', '/v1/captions')
  connection.putheader('Content-Type', 'multipart/form-data; boundary=x')
  connection.endheaders()
  answer = connection.getresponse()
  assert (answer.status, json.load(answer)['error']['code']) == (411, 'length_required')


@pytest.mark.parametrize('chunked', [False, True])
def test_a_body_that_is_too_large_is_refused_while_it_is_sent(server, chunked):
  read = 'vidcap_upload_bytes_total'
  before = server.metric(read)
  body = http_forms.body_of(parts_of([('a.mp4', bytes(3 * 2**20))]))
  pieces = (body[i : i + 2**16] for i in range(0, len(body), 2**16))
  kind = {'Content-Type': f'multipart/form-data; boundary={http_forms.BOUNDARY}'}
  connection = http_forms.connect(server.url)
  sent = pieces if chunked else body
  connection.request('POST', '/v1/captions', sent, kind, encode_chunked=chunked)
  answer = connection.getresponse()
  assert (answer.status, json.load(answer)['error']['code']) == (413, 'too_large')
  assert server.metric(read) - before <= 2.5 * 2**20
  assert server.uploads() == []


def test_no_file_of_the_server_can_be_read(server):
  for path in (
    *('/static/../app.py', '/static/%2e%2e/app.py', '/static/..%2fapp.py', '/static//etc/passwd'),
    *('/static/', '/static/%00', '/../../etc/passwd', '/static/page/../../command.py'),
  ):
    answer = get(server.url, path)
    assert answer.status == 404, path
    assert b'import' not in answer.body


def test_the_page_and_its_headers(server):
  page = get(server.url, '/')
  assert page.status == 200
  assert page.headers['content-type'].startswith('text/html')
  assert "default-src 'none'" in page.headers['content-security-policy']
  assert page.headers['x-content-type-options'] == 'nosniff'
  assert 'server' not in page.headers
  assert 'access-control-allow-origin' not in page.headers
