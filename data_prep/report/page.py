"""A data set as an HTML page: the output of ``data_prep.inspect``, with charts and thumbnails.

The page is one file with its styles and pictures. Text from the data set (captions, ids, messages)
is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence

from data_prep.report import charts
from data_prep.report.findings import (
  Findings,
  Part,
  broken,
  coverage_parts,
  frequent,
  left_out_lines,
  oddities,
  overview,
  split_parts,
  stream_parts,
  vocabulary_parts,
)
from data_prep.report.survey import Sample
from data_prep.report.thumbnails import Thumbnails
from vidcap_jax.counts import counted
from vidcap_jax.data.schema import Stream
from vidcap_jax.html_page import bullets, document, table, text

WORDS = 30  # words in the chart
CAPTIONS = 5  # captions shown of a video

_STYLE = """
.charts { display: flex; flex-wrap: wrap; gap: .5em 1.5em; align-items: flex-start; }
svg rect { fill: #3b78c4; } svg rect:hover { fill: #1d4e89; } svg line { stroke: #8c959f; }
svg text { font-size: 11px; fill: #444c56; }
.videos { display: grid; grid-template-columns: repeat(auto-fill, minmax(345px, 1fr));
  gap: 1em 1.4em; }
.videos img { width: 110px; height: 110px; margin-right: 3px; border-radius: 3px; }
.broken { border-left: 4px solid #c62828; background: #fdecea; padding: .4em 1em; }
.odd { border-left: 4px solid #d39e00; background: #fff8e1; padding: .4em 1em; }
.fine { border-left: 4px solid #2e7d32; background: #edf7ed; padding: .4em 1em; }
.broken h2, .odd h2, .fine h2 { border: 0; margin: 0; font-size: 1em; }
section + section.odd, section + section.fine { margin-top: .8em; }
"""


def render(findings: Findings, *, verified: bool, words: int, thumbnails: Thumbnails | None) -> str:
  """Renders the page.

  Args:
    findings: in the data set.
    verified: whether checksums were compared.
    words: how many frequent words to list.
    thumbnails: of the sampled videos; None without video files.
  """
  manifest = findings.manifest
  title = f'Data set {manifest.name}'
  videos = sum(split.videos for split in manifest.splits.values())
  captions = sum(split.captions for split in manifest.splits.values())
  about = f'{counted(videos, "video", ",")}, {counted(captions, "caption", ",")}'
  body = [
    f'<h1>{text(title)} <small>{about}</small></h1>',
    *map(_part, overview(manifest, verified=verified)),
    _anomalies('Broken', 'broken', list(broken(findings))),
    _anomalies('Odd', 'odd', list(oddities(findings))),
    _section('Splits', split_parts(findings)),
    _caption_lengths(findings),
    _section('Coverage', coverage_parts(findings)),
    '<h2>Streams</h2>',
    *(_stream(stream, findings) for stream in manifest.streams),
    _section('Vocabulary', vocabulary_parts(manifest, findings.surveys, words)),
    _words(findings),
    '<h2>Left out</h2>' + bullets(left_out_lines(manifest) or ['nothing']),
    '<h2>Videos</h2>',
    bullets(thumbnails.notes) if thumbnails and thumbnails.notes else '',
    *(
      _samples(name, survey.samples, thumbnails.pictures if thumbnails else {})
      for name, survey in findings.surveys.items()
    ),
  ]
  return document(title, body, _STYLE)


def _section(title: str, parts: Iterable[Part]) -> str:
  return f'<h2>{text(title)}</h2>' + ''.join(map(_part, parts))


def _part(part: Part) -> str:
  return f'<p>{text(part)}</p>' if isinstance(part, str) else table(part)


def _anomalies(title: str, kind: str, lines: Sequence[str]) -> str:
  if not lines:
    return f'<section class="fine"><h2>{title}: nothing</h2></section>'
  return f'<section class="{kind}"><h2>{title}</h2>{bullets(lines)}</section>'


def _figures(captioned: Iterable[tuple[str, str]]) -> str:
  figures = [
    f'<figure><figcaption>{text(caption)}</figcaption>{svg}</figure>' for caption, svg in captioned
  ]
  return f'<div class="charts">{"".join(figures)}</div>' if figures else ''


def _histograms(values: Mapping[str, Sequence[int]], what: str, axis: str) -> str:
  """A histogram of each split's values, with the same bins; a sentence if all values are equal."""
  all_values = [value for part in values.values() for value in part]
  if len(set(all_values)) == 1:
    return f'<p>{text(what)}: always {all_values[0]}</p>'
  bounds = charts.edges(all_values)
  return _figures(
    (f'{what}, {split}', charts.histogram(part, bounds, f'{what}, {split}', axis))
    for split, part in values.items()
    if part
  )


def _caption_lengths(findings: Findings) -> str:
  words = {name: survey.words for name, survey in findings.surveys.items()}
  per_video = {name: list(survey.captions.values()) for name, survey in findings.surveys.items()}
  return _histograms(words, 'Caption lengths', 'words in a caption') + _histograms(
    per_video, 'Captions of a video', 'captions'
  )


def _stream(stream: Stream, findings: Findings) -> str:
  line, *parts = stream_parts(stream, findings.surveys)
  chart = ''
  if stream.kind != 'vector':
    frames = {n: list(s.streams[stream.name].frames.values()) for n, s in findings.surveys.items()}
    chart = _histograms(frames, f'Frames per video of {stream.name}', 'frames')
  return f'<h3>{text(str(line))}</h3>' + ''.join(map(_part, parts)) + chart


def _words(findings: Findings) -> str:
  counts = frequent(findings.surveys)
  if not counts:
    return ''
  return _figures(
    [
      ('Most frequent words', charts.bars(counts[:WORDS], 'Most frequent words')),
      (
        'Number of words by how often they occur',
        charts.bars(charts.rarity(counts), 'Number of words by how often they occur'),
      ),
    ]
  )


def _samples(split: str, samples: Sequence[Sample], pictures: Mapping[str, Sequence[str]]) -> str:
  """Some videos of a split: id, pictures, captions."""
  shown = []
  for video in samples:
    frames = ', '.join(f'{n} {name}' for name, n in video.frames.items())
    category = f'category {video.category}; ' if video.category >= 0 else ''
    images = ''.join(f'<img alt="" src="{uri}">' for uri in pictures.get(video.video_id, ()))
    images = f'<div>{images}</div>' if images else ''
    captions = list(video.captions[:CAPTIONS])
    if (more := len(video.captions) - CAPTIONS) > 0:
      captions.append(f'… and {more} more')
    shown.append(
      f'<div><b>{text(video.video_id)}</b> <span class="small">{text(category)}'
      f'frames: {text(frames)}</span>{images}{bullets(captions or ["no captions"])}</div>'
    )
  return f'<h3>{text(split)}, evenly spaced samples</h3><div class="videos">{"".join(shown)}</div>'
