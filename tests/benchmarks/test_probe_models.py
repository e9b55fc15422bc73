"""Every trial reads streams of its probe."""

from benchmarks import probes as benchmark
from benchmarks.probe_models import config_of
from data_prep.synthetic.probe_clips import PROBES
from vidcap_jax import models
from vidcap_jax.training import experiment


def test_every_trial_reads_streams_of_its_probe():
  assert {trial.probe for trial in benchmark.TRIALS} <= set(PROBES)
  for trial in benchmark.TRIALS:
    for side in (trial.model, trial.baseline):
      config = config_of(side)
      for stage in config.order:
        settings = experiment.stage_config(config, stage).model
        needs = models.build(settings, 20).config.needs
        kinds = PROBES[trial.probe].kinds
        assert all(kinds[stream] in allowed for stream, allowed in needs.streams.items())
