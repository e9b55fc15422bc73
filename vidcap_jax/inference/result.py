"""What captioning one input gives: its captions, or the reason why it has none."""

import dataclasses
import html
from collections.abc import Mapping, Sequence
from typing import Any

from vidcap_jax.models.attention_axes import Attention


@dataclasses.dataclass(frozen=True)
class Candidate:
  """One of several captions of a video.

  Attributes:
    caption: its text.
    log_prob: the natural logarithm of the probability that the model gives it.

  Example:
    >>> import vidcap_jax as vc
    >>> vc.Candidate('a dog runs', -2.5)
    Candidate(caption='a dog runs', log_prob=-2.5)
  """

  caption: str
  log_prob: float


@dataclasses.dataclass(frozen=True)
class Result:
  """The caption of one input, or the error that left it without one.

  Attributes:
    video_id: the file's name without its ending, or the id of the features.
    caption: the best caption; None after an error.
    log_prob: the natural logarithm of the probability that the model gives the caption; None after
      an error.
    error: why there is no caption; None if there is one.
    captions: all captions that were decoded, best first (samples are in no order).
    attention: name -> the weights at each word of ``caption``, if they were asked for. ``weights``
      of an entry is (L, …): a row for each word, then the axes that ``axes`` names.
    source: the file or folder, or the id of features.
    notes: what is wrong with a file that could be captioned all the same, or how many regions of
      it the model left out.

  Example:
    >>> import vidcap_jax as vc
    >>> vc.Result('clip', 'a dog runs', -2.5)
    Result('clip', 'a dog runs', log_prob=-2.500)
    >>> vc.Result('gone', error='gone.mp4: no such file')
    Result('gone', error='gone.mp4: no such file')
  """

  video_id: str
  caption: str | None = None
  log_prob: float | None = None
  error: str | None = None
  captions: tuple[Candidate, ...] = ()
  attention: Mapping[str, Attention] = dataclasses.field(default_factory=dict)
  source: str = ''
  notes: tuple[str, ...] = ()

  @property
  def words(self) -> tuple[str, ...]:
    """The L words of the caption, one for each row of attention weights."""
    return tuple(self.caption.split(' ')) if self.caption else ()

  def to_dict(self) -> dict[str, Any]:
    """JSON-ready, as ``--mode=predict`` prints it; ``captions`` only if there are several."""
    if self.error is not None:
      return {'video_id': self.video_id, 'error': self.error}
    shown: dict[str, Any] = {
      'video_id': self.video_id,
      'caption': self.caption,
      'log_prob': self.log_prob,
    }
    if len(self.captions) > 1:
      shown['captions'] = [dataclasses.asdict(candidate) for candidate in self.captions]
    return shown

  def __repr__(self) -> str:
    if self.error is not None:
      return f'Result({self.video_id!r}, error={self.error!r})'
    parts = [repr(self.video_id), repr(self.caption)]
    if self.log_prob is not None:
      parts.append(f'log_prob={self.log_prob:.3f}')
    if len(self.captions) > 1:
      parts.append(f'captions={len(self.captions)}')
    if self.attention:
      parts.append(f'attention={list(self.attention)}')
    return f'Result({", ".join(parts)})'

  def _repr_html_(self) -> str:
    return _table([self])


class Results(list[Result]):
  """A list of ``Result``, in the order of the inputs, that notebooks show as a table.

  Example:
    >>> import vidcap_jax as vc
    >>> results = vc.Results([vc.Result('clip', 'a dog', -2.5), vc.Result('b', error='no file')])
    >>> print(results)
    clip: a dog
    b: error: no file
    >>> [result.video_id for result in results.failed]
    ['b']
  """

  @property
  def failed(self) -> 'Results':
    """The results that are errors."""
    return Results(result for result in self if result.error is not None)

  def __str__(self) -> str:
    return '\n'.join(
      f'{each.video_id}: {each.caption if each.error is None else f"error: {each.error}"}'
      for each in self
    )

  def _repr_html_(self) -> str:
    return _table(self)


_LEFT = 'text-align:left'  # notebooks put text of cells to the right


def _table(results: Sequence[Result]) -> str:
  """An HTML table with a row for each caption."""
  rows = []
  for result in results:
    video = f'<td style="{_LEFT}">{html.escape(result.video_id)}</td>'
    if result.error is not None:
      error = html.escape(result.error)
      rows.append(f'<tr>{video}<td colspan="2" style="{_LEFT};color:#b3261e">{error}</td></tr>')
      continue
    candidates = result.captions or (Candidate(result.caption or '', result.log_prob or 0.0),)
    for candidate in candidates:
      caption = f'<td style="{_LEFT}">{html.escape(candidate.caption)}</td>'
      rows.append(f'<tr>{video}{caption}<td>{candidate.log_prob:.3f}</td></tr>')
      video = '<td></td>'
  left = ''.join(f'<th style="{_LEFT}">{name}</th>' for name in ('video', 'caption'))
  head = f'<tr>{left}<th>log_prob</th></tr>'
  return f'<table>{head}{"".join(rows)}</table>'
