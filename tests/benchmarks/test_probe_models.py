"""Every trial reads streams of its probe, and published trials have the papers' values."""

from benchmarks import probes as benchmark
from benchmarks.probe_models import config_of
from configs import global2local, msrvtt_refocus, msvd_stats
from data_prep.synthetic.probe_clips import PROBES
from vidcap_jax import models
from vidcap_jax.models.global2local import Global2LocalConfig
from vidcap_jax.models.refocus import RefocusConfig
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


def test_published_trials_have_the_values_of_the_papers_configs():
  """What the claim depends on; sizes, learning rate and length are those of the probes."""
  published = {
    trial.probe: config_of(trial.model)
    for trial in benchmark.TRIALS
    if trial.settings == 'published'
  }
  assert set(published) == {'object', 'event', 'key'}
  stats = msvd_stats.get_config('')
  assert published['object'].model.temperature == stats.model.temperature
  paper, probe = msrvtt_refocus.get_config(''), published['event']
  assert probe.stages.joint.objective == paper.stages.joint.objective
  assert probe.stages.step1.train.epochs == paper.stages.step1.train.epochs
  assert probe.model.temporal == paper.model.temporal
  assert probe.stages.joint.model.sampler == RefocusConfig(vocab_size=20).sampler
  assert 'sampler' not in paper.model
  for name in ('tau', 'backward_tau', 'sampler', 'picks', 'scale', 'renormalise'):
    default = getattr(Global2LocalConfig(vocab_size=20), name)
    assert published['key'].model.get(name, default) == default
    assert global2local.get_config('').model.get(name, default) == default
