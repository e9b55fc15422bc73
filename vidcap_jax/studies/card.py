"""Writes a run's card: what it is, how it was made, how well it captions, and what it is bad at.

  vidcap card --checkpoint=RUN [--data=DIR] [--split=test] [--output=card.md]

A Markdown page from what the run has on disk. Scores have 95 % intervals, and videos and words that
it is bad at are shown, where the data set is at hand; its captions are those of the run's last
evaluation, so nothing is decoded.
"""

from collections.abc import Callable

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.files import check_output, read_json, write_text
from vidcap_jax.studies import card_page
from vidcap_jax.studies.card_contents import collect, workdir_of
from vidcap_jax.training.ledger import NAME as LEDGER

FILE = 'card.md'


def write(
  restored: Restored,
  data: str | None,
  split: str | None,
  output: str | None,
  log: Callable[[str], None],
) -> str:
  """Writes a run's card; arguments and errors are those of ``collect``.

  Args:
    output: the page; None: RUN/card.md.

  Returns:
    The page's path.
  """
  page = output or str(workdir_of(restored) / FILE)
  check_output('--output', page)
  ledger = workdir_of(restored) / LEDGER
  card = collect(restored, data, split, log)
  write_text(page, card_page.text(card, read_json(ledger) if ledger.is_file() else {}))
  return page
