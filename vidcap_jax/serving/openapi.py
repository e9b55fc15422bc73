"""The API as an OpenAPI 3.1 document."""

from collections.abc import Mapping
from typing import Any

from vidcap_jax import __version__
from vidcap_jax.serving import fields, uploads
from vidcap_jax.serving.errors import CODES
from vidcap_jax.serving.service import Service

Schema = dict[str, Any]
_TEXT: Schema = {'type': 'string'}
_NUMBER: Schema = {'type': 'number'}
_JSON = 'application/json'


def document(service: Service) -> Schema:
  """The description of all routes, with the values that this server allows."""
  return {
    'openapi': '3.1.0',
    'info': {
      'title': 'vidcap serve',
      'version': __version__,
      'summary': 'Captions for clips, pictures and features',
    },
    'paths': {
      '/v1/captions': {'post': _captions(service)},
      '/v1/model': {
        'get': _get('The model, what it reads and what is allowed', {'200': _json({})})
      },
      '/healthz': {'get': _get('Whether the server is ready', _health())},
      '/metrics': {'get': _get('Counters for Prometheus', {'200': _content('text/plain', _TEXT)})},
      '/openapi.json': {'get': _get('This document', {'200': _json({})})},
      '/': {'get': _get('The page', {'200': _content('text/html', _TEXT)})},
    },
    'components': {'schemas': _schemas()},
  }


def _captions(service: Service) -> Schema:
  statuses = sorted({str(status) for status in CODES.values()} - {'404', '405'})
  return {
    'summary': 'Captions clips and pictures, or a video of which features are given',
    'operationId': 'caption',
    'requestBody': {
      'required': True,
      'content': {'multipart/form-data': {'schema': _form(service)}},
    },
    'responses': {
      '200': _json(_ref('Captions')),
      **{status: _json(_ref('Failure'), _about(status)) for status in statuses},
    },
  }


def _form(service: Service) -> Schema:
  """The parts of a request."""
  properties: Schema = {}
  if service.reads_files:
    binary = {'type': 'string', 'format': 'binary'}
    properties['file'] = {
      'type': 'array',
      'items': binary,
      'maxItems': service.limits.files,
      'description': 'clips and pictures; the name of each gives the id of its result',
    }
  provenance = service.source.provenance
  for stream in (*provenance.streams, *provenance.alignment_streams):
    properties[f'{uploads.FEATURES}{stream.name}'] = {
      'type': 'string',
      'format': 'binary',
      'description': f'a .npy file, {stream.kind} {stream.axes}',
    }
  properties |= {name: _field(field) for name, field in fields.FIELDS.items()}
  properties['method']['enum'] = list(service.programs.methods)
  properties['beam']['enum'] = list(service.programs.beams)
  properties['captions']['maximum'] = service.programs.captions
  return {'type': 'object', 'properties': properties}


def _field(field: fields.Field) -> Schema:
  schema: Schema = {'type': field.type, 'description': field.about}
  if field.least is not None:
    schema['exclusiveMinimum' if field.is_open else 'minimum'] = field.least
  if field.most is not None:
    schema['maximum'] = field.most
  return schema


def _schemas() -> Schema:
  """The parts of answers."""
  nullable = {'type': ['object', 'null']}
  candidate = _object({'caption': _TEXT, 'log_prob': _NUMBER})
  result = _object(
    {
      'video_id': _TEXT,
      'caption': {'type': ['string', 'null']},
      'log_prob': {'type': ['number', 'null']},
      'captions': {'type': 'array', 'items': _ref('Candidate')},
      'attention': nullable,
      'notes': {'type': 'array', 'items': _TEXT},
      'error': {'anyOf': [_ref('Error'), {'type': 'null'}]},
    }
  )
  results = {'type': 'array', 'items': _ref('Result')}
  return {
    'Candidate': candidate,
    'Error': _object({'code': {'type': 'string', 'enum': sorted(CODES)}, 'message': _TEXT}),
    'Result': result,
    'Captions': _object({'results': results, 'seconds': _NUMBER}),
    'Failure': {**_object({'error': _ref('Error')}), 'description': 'results: if files failed'},
  }


def _about(status: str) -> str:
  return ', '.join(code for code, of_code in CODES.items() if str(of_code) == status)


def _health() -> Schema:
  answer = _object({'status': {'type': 'string', 'enum': ['starting', 'ready', 'stopping']}})
  return {'200': _json(answer, 'ready'), '503': _json(answer, 'starting or stopping')}


def _get(summary: str, responses: Schema) -> Schema:
  return {'summary': summary, 'responses': responses}


def _json(schema: Schema, about: str = 'the answer') -> Schema:
  return _content(_JSON, schema, about)


def _content(media_type: str, schema: Schema, about: str = 'the answer') -> Schema:
  return {'description': about, 'content': {media_type: {'schema': schema}}}


def _object(properties: Mapping[str, Schema]) -> Schema:
  return {'type': 'object', 'properties': dict(properties), 'required': list(properties)}


def _ref(name: str) -> Schema:
  return {'$ref': f'#/components/schemas/{name}'}
