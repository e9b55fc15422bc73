"""Checks every request's origin, and adds headers to every answer.

A page of another site that a browser shows must not use a server on the same machine: its requests
have that site's ``Origin``, or, if its name was made to point here (DNS rebinding), its ``Host``.
"""

import ipaddress
import socket
import time
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.metrics import Metrics

HEADERS = {
  'Content-Security-Policy': (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "media-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
  ),
  'Permissions-Policy': 'camera=(self), microphone=()',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}


class Guard:
  """Middleware of all routes.

  Args:
    app: that answers requests that pass.
    hosts: names besides 'localhost' and this machine's; addresses are always allowed.
    metrics: that count answers.
    routes: paths that have their own counters.
  """

  def __init__(
    self, app: ASGIApp, hosts: Collection[str], metrics: Metrics, routes: Collection[str]
  ):
    self._app, self._metrics, self._routes = app, metrics, routes
    names = ('localhost', socket.gethostname(), *hosts)
    self._hosts = {name.lower() for name in names}

  async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
    if scope['type'] != 'http':
      await self._app(scope, receive, send)
      return
    begin = time.perf_counter()
    route = scope['path'] if scope['path'] in self._routes else 'other'

    async def send_with_headers(message: Message) -> None:
      if message['type'] == 'http.response.start':
        headers = MutableHeaders(scope=message)
        headers.update(HEADERS)
        self._metrics.requests.labels(route, str(message['status'])).inc()
        self._metrics.seconds.labels(route).observe(time.perf_counter() - begin)
      await send(message)

    try:
      self.check(scope['method'], Headers(scope=scope))
    except ApiError as error:
      answer = JSONResponse({'error': error.to_dict()}, error.status)
      await answer(scope, receive, send_with_headers)
      return
    await self._app(scope, receive, send_with_headers)

  def check(self, method: str, headers: Headers) -> None:
    """Raises ApiError for a request to another host, or from a page of another origin."""
    host = headers.get('host', '')
    if not self._is_allowed(_name_of(host)):
      raise ApiError(
        'forbidden_host', 'the header Host is none of this server; see --allowed_hosts'
      )
    if method in ('GET', 'HEAD'):
      return  # browsers don't show the answer to pages of other origins
    origin = headers.get('origin')
    if origin is not None and origin.partition('://')[2].lower() != host.lower():
      raise ApiError('forbidden_origin', 'requests from pages of other origins are refused')
    if headers.get('sec-fetch-site', 'same-origin') not in ('same-origin', 'none'):
      raise ApiError('forbidden_origin', 'requests from pages of other sites are refused')

  def _is_allowed(self, name: str) -> bool:
    try:
      ipaddress.ip_address(name)
    except ValueError:
      return name in self._hosts
    return True  # an address can't be made to point elsewhere


def _name_of(host: str) -> str:
  """The name or address in a header ``Host``, without the port."""
  if host.startswith('['):
    name, end, port = host[1:].partition(']')
    return name if end and port[:1] in ('', ':') else host
  return host.partition(':')[0].lower()
