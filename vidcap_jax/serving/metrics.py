"""What a server counts, in the format of Prometheus."""

import prometheus_client
from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
  """The counters of one server; docs/serving.md lists them."""

  def __init__(self):
    self._registry = registry = prometheus_client.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)

    def make(kind, name, about, labels=(), **settings):
      return kind(name, about, labels, namespace='vidcap', registry=registry, **settings)

    self.requests = make(Counter, 'requests', 'Answers by route and status.', ('route', 'status'))
    self.seconds = make(
      Histogram, 'request_seconds', 'Seconds until an answer.', ('route',), buckets=_SECONDS
    )
    self.in_progress = make(Gauge, 'requests_in_progress', 'Requests for captions at work.')
    self.upload_bytes = make(Counter, 'upload_bytes', 'Bytes of bodies that were read.')
    self.files = make(Counter, 'files', 'Files and features by result.', ('result',))
    self.decoding = make(
      Histogram, 'decoding_seconds', 'Seconds until a file is decoded.', buckets=_SECONDS
    )
    self.waiting = make(Gauge, 'videos_waiting', 'Videos that wait to be captioned.')
    self.batches = make(
      Histogram, 'batch_videos', 'Videos that are captioned together.', buckets=(1, 2, 4, 8, 16, 32)
    )
    self.replaced = make(
      Counter, 'workers_replaced', 'Worker processes that were replaced.', ('reason',)
    )
    self.compiled = make(
      Counter, 'programs_compiled', 'Programs that were compiled after the start.', ('process',)
    )
    self.ready = make(Gauge, 'ready', '1 once everything is compiled, until the server stops.')
    for process in ('server', 'worker'):
      self.compiled.labels(process)
    for reason in ('died', 'timeout'):
      self.replaced.labels(reason)

  def text(self) -> bytes:
    """All of them, as ``content_type`` says."""
    return prometheus_client.generate_latest(self._registry)

  content_type = prometheus_client.CONTENT_TYPE_LATEST
