"""Checks intervals and paired tests of scores in a simulation, where the truth is known.

  python -m benchmarks.intervals --json=FILE

A population of made-up videos has references and two captions each. Test sets are drawn from it;
for each of them coins decide which of two systems has which caption of a video, so that the systems
do not differ. Then

- the interval of a test set should hold the score of the population in 95 of 100 test sets;
- p values of the two systems' differences should be uniform, by the test of Kolmogorov and Smirnov;
- 5 of 100 test sets should have a p value below 0.05.

CIDEr has the document frequencies of the population. The bootstrap as sacrebleu computes it is
shown without a goal: its p values are not uniform.
"""

import argparse
import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy import stats

from benchmarks import Row, add_json, report
from vidcap_jax import command_errors
from vidcap_jax.evaluation import comparison, intervals, metrics, scorers
from vidcap_jax.evaluation.intervals import Statistics

WORDS = (
  *('a', 'the', 'man', 'woman', 'dog', 'cat', 'child', 'people', 'is', 'are', 'two', 'in', 'on'),
  *('runs', 'running', 'plays', 'playing', 'sits', 'talking', 'singing', 'cooking', 'with', 'and'),
  *('guitar', 'ball', 'stage', 'kitchen', 'street', 'snow', 'water', 'car', 'horse', 'food', 'pot'),
)
COVERAGE = (94.0, 96.0)  # per cent of the intervals that hold the truth
LOWEST_P = 0.001  # of the test for uniform p values


@dataclasses.dataclass(frozen=True)
class Settings:
  """Of a simulation.

  Attributes:
    videos: of a test set.
    intervals: number of test sets whose intervals are computed.
    tests: number of test sets whose systems are compared.
    draws: of each interval and each test.
    population: number of its videos.
    seed: of everything.
  """

  videos: int = 500
  intervals: int = 4000
  tests: int = 2000
  draws: int = 1000
  population: int = 2000
  seed: int = 0


def make_population(settings: Settings, with_meteor: bool) -> tuple[Statistics, Statistics]:
  """The statistics of the first and of the second captions of all videos."""
  rng = np.random.default_rng(settings.seed)
  shares = 1 / np.arange(1, len(WORDS) + 1)  # Zipf's law
  shares /= shares.sum()
  references, captions = [], []
  for _ in range(settings.population):
    gist = rng.choice(WORDS, rng.integers(4, 12), p=shares)  # what the video shows
    references.append([' '.join(_varied(gist, 0.7, shares, rng)) for _ in range(5)])
    share = rng.beta(2, 2)  # videos are easy or hard for both systems
    pair = [' '.join(_varied(gist, share, shares, rng)) for _ in range(2)]
    captions.append([pair[0], pair[0] if rng.random() < 0.3 else pair[1]])
  first, second = (
    _score([pair[i] for pair in captions], references, with_meteor) for i in range(2)
  )
  return first, second


def _varied(
  words: np.ndarray, share: float, shares: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
  """Words of which this share is kept and the others are random, and a tenth is left out.

  With captions of equal lengths BLEU-1 would have few different values, and p values many ties.
  """
  others = rng.choice(WORDS, len(words), p=shares)
  chosen = np.where(rng.random(len(words)) < share, words, others)
  kept = rng.random(len(words)) < 0.9
  return chosen[kept] if kept.any() else chosen


def _score(
  captions: Sequence[str], references: Sequence[Sequence[str]], with_meteor: bool
) -> Statistics:
  scored = scorers.SCORERS['numpy'](captions, references, metrics.METRICS)
  statistics = None
  if with_meteor:
    with metrics.start_meteor() as process:
      corpus, videos, statistics = process.score_with_statistics(captions, references)
    scored['METEOR'] = corpus, np.array(videos)
  scored = dict(sorted(scored.items()))
  ids = [str(i) for i in range(len(captions))]
  return intervals.statistics_of(
    metrics.ScoreDetails(
      ids,
      captions,
      metrics.References(dict(zip(ids, map(list, references), strict=True))),
      {name: float(value) for name, (value, _) in scored.items()},
      {name: values for name, (_, values) in scored.items()},
      statistics,
    )
  )


def _mixed(first: Statistics, second: Statistics, exchanged: np.ndarray) -> Statistics:
  """The first system, with the captions of the second where they are exchanged."""
  choose = lambda a, b: np.where(exchanged[:, None], b, a)  # noqa: E731
  return dataclasses.replace(
    first,
    means=choose(first.means, second.means),
    bleu=choose(first.bleu, second.bleu),
    meteor=choose(first.meteor, second.meteor),
  )


def _test_set(statistics: Statistics, videos: np.ndarray) -> Statistics:
  """The statistics of drawn videos of the population; a video may be drawn again."""
  return dataclasses.replace(
    statistics,
    ids=range(len(videos)),
    means=statistics.means[videos],
    bleu=statistics.bleu[videos],
    meteor=statistics.meteor[videos],
  )


def coverage(population: Statistics, settings: Settings) -> dict[str, float]:
  """The share of intervals of test sets that hold the score of the population."""
  truth = population.scores(population.table.sum(axis=0))
  rng = np.random.default_rng(settings.seed + 1)
  held = np.zeros(len(truth))
  for trial in range(settings.intervals):
    videos = rng.integers(0, settings.population, settings.videos)
    found = intervals.score_intervals(_test_set(population, videos), trial, settings.draws)
    ends = np.array([found[name] for name in population.names])
    held += (ends[:, 0] <= truth) & (truth <= ends[:, 1])
  return dict(zip(population.names, (held / settings.intervals).tolist(), strict=True))


@dataclasses.dataclass(frozen=True)
class NullTests:
  """Tests of systems that do not differ.

  Attributes:
    p_values: name of the test -> metric -> p values of the test sets.
    covered: metric -> the share of intervals of the difference that hold 0.
  """

  p_values: dict[str, dict[str, np.ndarray]]
  covered: dict[str, float]


def null_tests(first: Statistics, second: Statistics, settings: Settings) -> NullTests:
  """Compares two systems that do not differ, on many test sets, see the module's docstring."""
  rng = np.random.default_rng(settings.seed + 2)
  p_values: dict[str, list[list[float]]] = {'bootstrap': [], 'randomization': [], 'sacrebleu': []}
  covered = np.zeros(len(first.names))
  for trial in range(settings.tests):
    videos = rng.integers(0, settings.population, settings.videos)
    exchanged = rng.random(settings.videos) < 0.5
    pair = _test_set(first, videos), _test_set(second, videos)
    own, other = _mixed(*pair, exchanged), _mixed(*pair[::-1], exchanged)
    found = comparison.compare(own, other, trial, settings.draws).values()
    p_values['bootstrap'].append([difference.p_bootstrap for difference in found])
    p_values['randomization'].append([difference.p_randomization for difference in found])
    covered += [difference.interval[0] <= 0 <= difference.interval[1] for difference in found]
    # sacrebleu centres sizes in place of differences, see the module ``comparison``.
    draws = np.random.default_rng(trial)
    sizes = np.abs(comparison.drawn_differences(own, other, draws, settings.draws))
    size = np.array([abs(difference.difference) for difference in found])
    p_values['sacrebleu'].append(list((sizes - sizes.mean(axis=0) > size).mean(axis=0)))
  return NullTests(
    {
      test: dict(zip(first.names, np.array(values).T, strict=True))
      for test, values in p_values.items()
    },
    dict(zip(first.names, (covered / settings.tests).tolist(), strict=True)),
  )


def rows_of(held: dict[str, float], tested: NullTests) -> list[Row]:
  """What is reported."""
  low, high = COVERAGE
  rows = [
    Row(f'interval holds {name}', 100 * share, '%', goal=95, met=bool(low <= 100 * share <= high))
    for name, share in held.items()
  ]
  for name, share in tested.covered.items():
    rows.append(Row(f'interval of the difference holds 0, {name}', 100 * share, '%'))
  for test, by_metric in tested.p_values.items():
    has_own_formula = test != 'sacrebleu'
    label = test if has_own_formula else "bootstrap as sacrebleu's"
    for name, values in by_metric.items():
      p = float(stats.kstest(values, 'uniform').pvalue)
      goal, met = (LOWEST_P, p > LOWEST_P) if has_own_formula else (None, None)
      rows.append(Row(f'{label}, {name}: p of uniform p values', p, goal=goal, met=met))
      rejected = 100 * float(np.mean(values < 0.05))
      rows.append(Row(f'{label}, {name}: p below 0.05', rejected, '%'))
  return rows


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  for field in dataclasses.fields(Settings):
    parser.add_argument(
      f'--{field.name}', type=int, default=field.default, help='(default: %(default)s)'
    )
  parser.add_argument('--without_meteor', action='store_true', help='leave METEOR out')
  add_json(parser)
  options = parser.parse_args(arguments)
  names = [field.name for field in dataclasses.fields(Settings)]
  settings = Settings(**{name: getattr(options, name) for name in names})
  first, second = make_population(settings, with_meteor=not options.without_meteor)
  rows = rows_of(coverage(first, settings), null_tests(first, second, settings))
  if not report(rows, options.json):
    raise SystemExit('error: some goals are missed')


if __name__ == '__main__':
  main()
