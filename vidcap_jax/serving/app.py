"""The routes of the server."""

import asyncio
import json
import pathlib
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from vidcap_jax.serving import described, openapi, uploads
from vidcap_jax.serving.errors import ApiError
from vidcap_jax.serving.guards import Guard
from vidcap_jax.serving.service import Service

PAGE = pathlib.Path(__file__).parent / 'page'
_CODES = {404: 'not_found', 405: 'method_not_allowed'}
_STOP_SECONDS = 1.0  # for a start that is not finished; ``server.serve`` ends what is left of it
_GONE = 499  # a status that is never sent: the client has closed the connection


def make_app(
  service: Service,
  allowed_hosts: Collection[str] = (),
  start: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> Starlette:
  """The application.

  Args:
    service: that captions.
    allowed_hosts: see ``Guard``.
    start: awaited in the background once the server listens.
  """
  routes = _Routes(service)
  paths = {
    '/': routes.page,
    '/healthz': routes.health,
    '/metrics': routes.metrics,
    '/openapi.json': routes.openapi,
    '/v1/model': routes.model,
  }
  guard = Middleware(
    Guard,
    hosts=allowed_hosts,
    metrics=service.metrics,
    routes=frozenset({*paths, '/v1/captions'}),
  )

  @asynccontextmanager
  async def lifespan(app: Starlette) -> AsyncIterator[None]:
    starting = asyncio.create_task(start()) if start else None
    yield
    await asyncio.to_thread(service.close)  # the start ends after the program that it compiles
    if starting:
      await asyncio.wait({starting}, timeout=_STOP_SECONDS)

  return Starlette(
    routes=[
      *(Route(path, endpoint) for path, endpoint in paths.items()),
      Route('/v1/captions', routes.captions, methods=['POST']),
      Mount('/static', StaticFiles(directory=PAGE, check_dir=False)),
    ],
    middleware=[guard],
    exception_handlers={ApiError: _api_error, HTTPException: _http_error, 500: _fault},
    lifespan=lifespan,
  )


class _Routes:
  """The endpoints."""

  def __init__(self, service: Service):
    self._service = service
    self._model = json.dumps(described.model(service)).encode()
    self._openapi = json.dumps(openapi.document(service)).encode()

  async def page(self, request: Request) -> Response:
    return FileResponse(PAGE / 'index.html')

  async def health(self, request: Request) -> Response:
    state = self._service.state
    return JSONResponse({'status': state}, 200 if state == 'ready' else 503)

  async def metrics(self, request: Request) -> Response:
    metrics = self._service.metrics
    return Response(metrics.text(), headers={'Content-Type': metrics.content_type})

  async def openapi(self, request: Request) -> Response:
    return Response(self._openapi, media_type='application/json')

  async def model(self, request: Request) -> Response:
    return Response(self._model, media_type='application/json')

  async def captions(self, request: Request) -> Response:
    service = self._service
    try:
      uploads.check_head(request, service.limits)
      with service.admitted():
        count = service.metrics.upload_bytes.inc
        form = await uploads.receive(request, service.limits, count)
        try:
          status, body = await _unless_gone(request, service.answer(form))
        finally:
          await form.close()
      return JSONResponse(body, status)
    except ApiError:
      await uploads.discard(request, service.limits)
      raise
    except ClientDisconnect:
      return Response(status_code=_GONE)


async def _unless_gone(request: Request, work: Coroutine) -> Any:
  """The result of work, which is cancelled if the client closes the connection.

  Raises:
    ClientDisconnect: it has.
  """
  working = asyncio.ensure_future(work)
  gone = asyncio.ensure_future(request.receive())  # after the body comes only this
  try:
    await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
      raise ClientDisconnect
    return working.result()
  finally:
    gone.cancel()
    working.cancel()
    await asyncio.wait({working, gone})


async def _api_error(request: Request, error: Exception) -> Response:
  assert isinstance(error, ApiError)
  return JSONResponse({'error': error.to_dict()}, error.status, error.headers)


async def _http_error(request: Request, error: Exception) -> Response:
  assert isinstance(error, HTTPException)
  code = _CODES.get(error.status_code, 'bad_request')
  described = {'code': code, 'message': error.detail}
  return JSONResponse({'error': described}, error.status_code, error.headers)


async def _fault(request: Request, error: Exception) -> Response:
  return JSONResponse({'error': ApiError('internal', 'an error in the server').to_dict()}, 500)
