"""Metrics are those that the documentation lists."""

import pathlib
import re

from vidcap_jax.serving.metrics import Metrics

DOCS = pathlib.Path(__file__).resolve().parents[3] / 'docs' / 'serving.md'


def test_the_documentation_lists_all_metrics():
  text = Metrics().text().decode()
  metrics = {*re.findall(r'^# TYPE (vidcap_\w+) (?:counter|gauge|histogram)$', text, re.M)}
  metrics = {name for name in metrics if not name.endswith('_created')}
  listed = {*re.findall(r'^\| `(vidcap_\w+)', DOCS.read_text(), re.M)}
  assert metrics == listed


def test_two_servers_count_apart():
  first, second = Metrics(), Metrics()
  first.files.labels('captioned').inc()
  assert b'vidcap_files_total{result="captioned"} 1.0' in first.text()
  assert b'result="captioned"' not in second.text()
