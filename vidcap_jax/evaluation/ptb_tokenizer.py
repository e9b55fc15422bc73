"""Words as the metrics compare them, by pycocoevalcap's PTB tokeniser or the same in Python."""

import subprocess
from collections.abc import Sequence

from vidcap_jax.data.tokenizers import normalize, without_joiners
from vidcap_jax.evaluation import ptb_lexer
from vidcap_jax.evaluation.java import (
  OPTIONS,
  MetricError,
  choose_program,
  packaged,
  require_java,
  sanitise,
  tail,
)

# Tokens that the usual evaluation scripts drop after tokenising. They list brackets in upper case,
# but the text is lower case by then, so '-lrb-' stays. Dropping it would change published scores.
PUNCTUATION = frozenset(
  ["''", "'", '``', '`', '-LRB-', '-RRB-', '-LCB-', '-RCB-']
  + ['.', '?', '!', ',', ':', '-', '--', '...', ';']
)

TOKENISER_SECONDS = 900.0

# Java's quick compiler and plain collector take half the processor time, as the program runs for
# seconds only.
_JAVA_OPTIONS = (*OPTIONS, '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC')

# The names of the programs with their versions, as signatures have them.
VERSIONS = {'java': 'ptb-3.4.1', 'python': 'ptb-3.4.1-python'}


def tokenize(
  captions: Sequence[str], time_limit: float = TOKENISER_SECONDS, program: str = 'auto'
) -> list[str]:
  """Captions as the metrics compare them: PTB tokens, lower-cased, without punctuation.

  Args:
    captions: any text; it is normalized and sanitised first.
    time_limit: seconds for the whole run in Java.
    program: one of ``java.PROGRAMS``.

  Returns:
    For each caption its tokens, joined by spaces; '' if it has only punctuation.

  Raises:
    ConfigError: an unknown program.
    MetricError: Java is missing but asked for, failed, or ran over the time limit.
  """
  if not captions:
    return []
  texts = [sanitise(without_joiners(normalize(c))) for c in captions]
  if choose_program('tokenizer', program) == 'java':
    lines = _run_java(texts, time_limit)
  else:
    lines = [' '.join(tokens) for tokens in ptb_lexer.lex(texts)]
  # Only at spaces: a token may contain a no-break space ('1 1/2').
  return [' '.join(w for w in line.rstrip().split(' ') if w not in PUNCTUATION) for line in lines]


def _run_java(captions: Sequence[str], time_limit: float) -> list[str]:
  """The tokens of each caption by one Java process, which reads them on its standard input."""
  jar = packaged('tokenizer', 'stanford-corenlp-3.4.1.jar')
  command = [require_java(), *_JAVA_OPTIONS, '-cp', jar]
  command += ['edu.stanford.nlp.process.PTBTokenizer', '-preserveLines', '-lowerCase']
  text = ''.join(caption + '\n' for caption in captions)
  try:
    done = subprocess.run(command, input=text.encode(), capture_output=True, timeout=time_limit)
  except subprocess.TimeoutExpired:
    raise MetricError(
      f'the PTB tokeniser took more than {time_limit:.0f} s for {len(captions)} captions'
    ) from None
  lines = done.stdout.decode('utf-8').split('\n')[:-1]
  if done.returncode != 0 or len(lines) != len(captions):
    raise MetricError(
      f'the PTB tokeniser gave {len(lines)} lines for {len(captions)} captions '
      f'(exit status {done.returncode}): {tail(done.stderr)}'
    )
  return lines
