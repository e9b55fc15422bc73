"""The lines at the end of a run; tests/end_to_end/test_recipe.py has a whole run on clips."""

import sys

import pytest

from vidcap_jax.checkpoints import checkpoint
from vidcap_jax.training import run_summary


def test_scores_stand_beside_those_of_the_constant_caption():
  scores = {'BLEU_4': 0.8, 'METEOR': 0.5, 'ROUGE_L': 0.9, 'CIDEr': 3.6}
  constant = {'BLEU_4': 0.0, 'METEOR': 0.25, 'ROUGE_L': 0.45, 'CIDEr': 0.6}
  rows = [line.split() for line in run_summary.score_table(scores, constant).splitlines()[1:]]
  assert rows == [
    ['BLEU_4', '0.800', '0.000', '-'],
    ['METEOR', '0.500', '0.250', '2.0'],
    ['ROUGE_L', '0.900', '0.450', '2.0'],
    ['CIDEr', '3.600', '0.600', '6.0'],
  ]


@pytest.mark.parametrize('rendered', [True, False])
def test_the_hint_names_what_the_model_reads(rendered, tiny_run, monkeypatch):
  monkeypatch.setattr(sys, 'argv', ['vidcap train' if rendered else 'main.py'])
  text = run_summary.next_steps(tiny_run, rendered)
  assert (': vidcap predict --checkpoint=' in text) == rendered
  assert (': python -m vidcap_jax.main --mode=predict' in text) != rendered
  assert text.splitlines()[0].endswith('--inputs=image=DIR')
  assert ('docs/video.md' in text) == rendered
  extractor = {'extractor': 'random_sequence', 'version': '1', 'sampling': {'uniform': 8}}
  read_meta = checkpoint.read_meta

  def extracted(path):
    meta = read_meta(path)
    return meta | {'streams': [stream | extractor for stream in meta['streams']]}

  monkeypatch.setattr(run_summary.checkpoint, 'read_meta', extracted)
  assert run_summary.next_steps(tiny_run, rendered).splitlines()[0].endswith('--inputs=FILES')
