"""Time and values of our scores beside pycocoevalcap's: BLEU, METEOR, ROUGE-L and CIDEr.

  python -m benchmarks.scoring [--videos=3000] [--references=20] [--json=FILE]

Captions are drawn from a seed with the lengths of MSR-VTT's, or are those of
``--annotations=FILE``, of which each video's last one is scored against the others. pycocoevalcap
runs as its ``eval.py`` does, without SPICE: one program after the other. The times are of the same
run, so that other load on the machine slows all of them; METEOR is started anew each time. The
processor time depends less on such load, and not on the number of processors.
"""

import argparse
import dataclasses
import random
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from benchmarks import Row, add_json, report
from vidcap_jax import command_errors
from vidcap_jax.annotations import caption_files
from vidcap_jax.errors import DataError
from vidcap_jax.evaluation import meteor_alignment, meteor_words, metrics
from vidcap_jax.evaluation.programs import Programs

GOAL = 1 / 3  # of pycocoevalcap's time
TOLERANCE = 1e-9  # of a video's score

_SUBJECTS = (
  *('man', 'woman', 'boy', 'girl', 'dog', 'cat', 'band', 'chef', 'player', 'singer', 'child'),
  *('person', 'group', 'people'),
)
_VERBS = (
  *('playing', 'cooking', 'riding', 'singing', 'cutting', 'driving', 'dancing', 'explaining'),
  *('showing', 'eating'),
)
_OBJECTS = (
  *('guitar', 'piano', 'ball', 'car', 'bike', 'onion', 'meal', 'game', 'song', 'video'),
  *('computer', 'horse', 'phone'),
)
_PLACES = ('kitchen', 'street', 'stage', 'field', 'room', 'park', 'studio', 'garden', 'road')
_ADJECTIVES = ('young', 'old', 'little', 'large', 'small', 'red', 'black', 'white', 'happy')
_MORE = (
  'while another one is watching',
  'and talking about it to the camera',
  'with a group of other people',
  'in front of a crowd',
)

Videos = tuple[dict[str, str], dict[str, list[str]]]  # one caption a video, and its references


def made_captions(videos: int, references: int, seed: int) -> Videos:
  """Captions of 3 to about 20 words, 9 on average as MSR-VTT's, alike within a video."""
  rng = random.Random(seed)
  hypotheses, by_video = {}, {}
  for number in range(videos):
    topic = [rng.sample(words, 3) for words in (_SUBJECTS, _VERBS, _OBJECTS, _PLACES)]
    captions = [_caption(topic, rng) for _ in range(references + 1)]
    hypotheses[f'video{number}'] = captions[0]
    by_video[f'video{number}'] = captions[1:]
  return hypotheses, by_video


def _caption(topic: Sequence[Sequence[str]], rng: random.Random) -> str:
  subject, verb, thing, place = (rng.choice(words) for words in topic)
  parts = [rng.choice(('a', 'the', 'two'))]
  parts += [rng.choice(_ADJECTIVES)] if rng.random() < 0.4 else []
  parts += [subject, rng.choice(('is', 'is', 'are', 'was')), verb]
  parts += [rng.choice(('a', 'the', 'his')), thing] if rng.random() < 0.7 else []
  parts += [rng.choice(('in', 'on', 'near')), 'a', place] if rng.random() < 0.5 else []
  parts += [rng.choice(_MORE)] if rng.random() < 0.2 else []
  return ' '.join(parts) + rng.choice(('', '', '.'))


def read_captions(path: str, videos: int, references: int) -> Videos:
  """The first videos of an annotation file with enough captions.

  Raises:
    DataError: there are fewer such videos.
  """
  found = {
    video_id: captions[: references + 1]
    for video_id, captions in caption_files.read_references(path).items()
    if len(captions) > references or len(captions) == references > 1
  }
  if len(found) < videos:
    raise DataError(f'{path} has {len(found)} videos of {references} captions, not {videos}')
  chosen = dict(list(found.items())[:videos])
  return {v: c[-1] for v, c in chosen.items()}, {v: c[:-1] for v, c in chosen.items()}


def pycocoevalcap_scores(
  hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]]
) -> dict[str, np.ndarray]:
  """The scores of each video, (N,), by the package's own tokeniser and scorers."""
  from pycocoevalcap.bleu.bleu import Bleu
  from pycocoevalcap.cider.cider import Cider
  from pycocoevalcap.meteor.meteor import Meteor
  from pycocoevalcap.rouge.rouge import Rouge
  from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

  tokenizer = PTBTokenizer()
  gold = tokenizer.tokenize({v: [{'caption': c} for c in cs] for v, cs in references.items()})
  tokens = tokenizer.tokenize({v: [{'caption': c}] for v, c in hypotheses.items()})
  _, bleu = Bleu(4).compute_score(gold, tokens, verbose=0)
  found = {f'BLEU_{n + 1}': np.array(values) for n, values in enumerate(bleu)}
  for name, scorer in (('METEOR', Meteor()), ('ROUGE_L', Rouge()), ('CIDEr', Cider())):
    found[name] = np.array(scorer.compute_score(gold, tokens)[1])
  return found


def our_scores(
  hypotheses: Mapping[str, str], references: Mapping[str, Sequence[str]], program: str
) -> dict[str, np.ndarray]:
  """The same by ``metrics.score``.

  Args:
    hypotheses, references: as for that.
    program: one of ``java.PROGRAMS``, for tokens and METEOR.
  """
  programs = Programs(tokenizer=program, meteor=program, meteor_time_limit=3600.0)
  _, by_video = metrics.score(hypotheses, references, programs=programs)
  names = next(iter(by_video.values()))
  return {name: np.array([scores[name] for scores in by_video.values()]) for name in names}


@dataclasses.dataclass(frozen=True)
class Timed:
  """Scores of the videos with the seconds that they took, and those of all processors together."""

  scores: Mapping[str, np.ndarray]
  seconds: float
  processor_seconds: float


def measure(hypotheses: dict[str, str], references: dict[str, list[str]]) -> list[Row]:
  """Times each way of scoring, and compares the scores."""
  expected = _timed(pycocoevalcap_scores, hypotheses, references)
  rows = [
    Row('pycocoevalcap', expected.seconds, 's'),
    Row('pycocoevalcap, processor time', expected.processor_seconds, 's'),
  ]
  for program in ('auto', 'java', 'python'):
    found = _timed(our_scores, hypotheses, references, program)
    ratio = found.seconds / expected.seconds
    goal = {'goal': GOAL, 'met': ratio <= GOAL} if program == 'auto' else {}
    name = f'tokens and METEOR by {program}'
    rows.append(Row(name, found.seconds, 's', ratio, **goal))
    ratio = found.processor_seconds / expected.processor_seconds
    rows.append(Row(f'{name}, processor time', found.processor_seconds, 's', ratio))
    for metric, values in expected.scores.items():
      largest = float(np.abs(found.scores[metric] - values).max())
      met = largest <= TOLERANCE
      rows.append(Row(f'{metric} by {program}, difference', largest, goal=TOLERANCE, met=met))
  return rows


def _timed(score: Callable, *arguments) -> Timed:
  for module in (meteor_alignment, meteor_words):  # of the last way to score the same captions
    for function in vars(module).values():
      if hasattr(function, 'cache_clear'):
        function.cache_clear()
  began, processor_began = time.perf_counter(), _processor_seconds()
  found = score(*arguments)
  return Timed(found, time.perf_counter() - began, _processor_seconds() - processor_began)


def _processor_seconds() -> float:
  """The processor time of this process and of those that it started and that have ended."""
  kinds = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
  return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument('--videos', type=int, default=3000)
  parser.add_argument('--references', type=int, default=20, help='of each video')
  parser.add_argument('--seed', type=int, default=0, help='of the captions that are made')
  parser.add_argument('--annotations', metavar='FILE', help='real captions, in place of made ones')
  add_json(parser)
  options = parser.parse_args(arguments)
  if options.annotations:
    videos = read_captions(options.annotations, options.videos, options.references)
  else:
    videos = made_captions(options.videos, options.references, options.seed)
  rows = measure(*videos)
  if not report(rows, options.json):
    sys.exit('error: a goal is missed')


if __name__ == '__main__':
  main()
