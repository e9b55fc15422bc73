"""The OpenAPI document: its schemas, the routes, and answers that agree with it."""

import jsonschema
import pytest
from starlette.routing import Route

from tests.http_forms import get, parts_of, post
from vidcap_jax.serving import fields, openapi
from vidcap_jax.serving.app import make_app


@pytest.fixture(scope='module')
def document(service):
  return openapi.document(service)


def parts(value, key=''):
  """Every object in the document, and the key that it has."""
  if isinstance(value, dict):
    yield key, value
    for name, each in value.items():
      yield from parts(each, name)
  elif isinstance(value, list):
    for each in value:
      yield from parts(each)


def test_schemas_are_valid_and_references_resolve(document):
  assert document['openapi'].startswith('3.1.')
  assert {'title', 'version'} <= {*document['info']}
  known = {f'#/components/schemas/{name}' for name in document['components']['schemas']}
  for key, part in parts(document):
    assert part.get('$ref', next(iter(known))) in known
    if key == 'schema':
      jsonschema.Draft202012Validator.check_schema(part)


def test_the_routes_are_those_of_the_application(document, service):
  routes = {route.path: route for route in make_app(service).routes if isinstance(route, Route)}
  assert {*document['paths']} == {*routes}
  for path, operations in document['paths'].items():
    assert {method.upper() for method in operations} == routes[path].methods - {'HEAD'}
    for operation in operations.values():
      assert operation['summary']
      assert all(answer['description'] for answer in operation['responses'].values())


def test_the_form_has_all_fields_with_the_values_of_this_server(document, service):
  operation = document['paths']['/v1/captions']['post']
  schema = operation['requestBody']['content']['multipart/form-data']['schema']['properties']
  assert {*schema} == {'file', 'features.image', *fields.FIELDS}
  assert schema['beam']['enum'] == list(service.programs.beams)
  assert schema['captions']['maximum'] == service.programs.captions


def test_answers_agree(server, document, workspace):
  assert get(server.url, '/openapi.json').json['paths'].keys() == document['paths'].keys()
  clip = ('clip.mp4', (workspace / 'clip.mp4').read_bytes())
  responses = document['paths']['/v1/captions']['post']['responses']
  for form in (
    parts_of([clip], captions=2, attention='true'),
    parts_of([clip, ('x.mp4', b'x')]),
    parts_of([('x.mp4', b'x')]),
    parts_of([clip], beam=77),
  ):
    answer = post(server.url, form)
    schema = responses[str(answer.status)]['content']['application/json']['schema']
    jsonschema.validate(answer.json, {**schema, 'components': document['components']})
