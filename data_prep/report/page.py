"""A data set as an HTML page: the output of ``data_prep.inspect``, with charts and thumbnails.

The page is one file with its styles and pictures. Text from the data set (captions, ids, messages)
is escaped.
"""

import html
from collections.abc import Iterable, Mapping, Sequence

from data_prep.report import charts
from data_prep.report.findings import (
  Findings,
  Part,
  Rows,
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
from vidcap_jax.data.schema import Stream

WORDS = 30  # words in the chart
CAPTIONS = 5  # captions shown of a video

_STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; color: #1b1f24; margin: 2em auto; padding: 0 1.5em;
  max-width: 1120px; }
h1 { font-size: 1.7em; margin-bottom: 0; } h1 small { color: #656d76; font-weight: normal; }
h2 { font-size: 1.2em; border-bottom: 1px solid #d0d7de; padding-bottom: .2em; margin-top: 2em; }
h3 { font-size: 1em; margin: 1.4em 0 .2em; }
p, li { overflow-wrap: anywhere; } p { margin: .3em 0; } .small { color: #656d76; font-size: 12px; }
ul { margin: .3em 0; padding-left: 1.3em; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .6em 0; font-variant-numeric: tabular-nums; }
th, td { padding: .15em .8em; text-align: right; border-bottom: 1px solid #eaeef2;
  white-space: nowrap; }
th { color: #656d76; font-weight: 600; } th:first-child, td:first-child { text-align: left;
  padding-left: 0; }
.charts { display: flex; flex-wrap: wrap; gap: .5em 1.5em; align-items: flex-start; }
figure { margin: .4em 0; } figcaption { font-weight: 600; font-size: 13px; }
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
  about = f'{videos:,} videos, {captions:,} captions'
  body = [
    f'<h1>{_text(title)} <small>{about}</small></h1>',
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
    '<h2>Left out</h2>' + _list(left_out_lines(manifest) or ['nothing']),
    '<h2>Videos</h2>',
    _list(thumbnails.notes) if thumbnails and thumbnails.notes else '',
    *(
      _samples(name, survey.samples, thumbnails.pictures if thumbnails else {})
      for name, survey in findings.surveys.items()
    ),
  ]
  return (
    '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    # Should any text not be escaped, it still can't run or load anything.
    '<meta http-equiv="Content-Security-Policy" '
    "content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n"
    f'<title>{_text(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n'
    + '\n'.join(filter(None, body))
    + '\n</body>\n</html>\n'
  )


def _text(text: str) -> str:
  return html.escape(text)


def _section(title: str, parts: Iterable[Part]) -> str:
  return f'<h2>{_text(title)}</h2>' + ''.join(map(_part, parts))


def _part(part: Part) -> str:
  return f'<p>{_text(part)}</p>' if isinstance(part, str) else _table(part)


def _table(rows: Rows) -> str:
  head, *others = rows
  cells = ''.join(f'<th>{_text(cell)}</th>' for cell in head)
  lines = [f'<tr>{cells}</tr>']
  for row in others:
    lines.append('<tr>' + ''.join(f'<td>{_text(cell)}</td>' for cell in row) + '</tr>')
  return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _list(lines: Sequence[str]) -> str:
  return '<ul>' + ''.join(f'<li>{_text(line)}</li>' for line in lines) + '</ul>'


def _anomalies(title: str, kind: str, lines: Sequence[str]) -> str:
  if not lines:
    return f'<section class="fine"><h2>{title}: nothing</h2></section>'
  return f'<section class="{kind}"><h2>{title}</h2>{_list(lines)}</section>'


def _figures(captioned: Iterable[tuple[str, str]]) -> str:
  figures = [
    f'<figure><figcaption>{_text(caption)}</figcaption>{svg}</figure>' for caption, svg in captioned
  ]
  return f'<div class="charts">{"".join(figures)}</div>' if figures else ''


def _histograms(values: Mapping[str, Sequence[int]], what: str, axis: str) -> str:
  """A histogram of each split's values, with the same bins; a sentence if all values are equal."""
  all_values = [value for part in values.values() for value in part]
  if len(set(all_values)) == 1:
    return f'<p>{_text(what)}: always {all_values[0]}</p>'
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
  return f'<h3>{_text(str(line))}</h3>' + ''.join(map(_part, parts)) + chart


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
      f'<div><b>{_text(video.video_id)}</b> <span class="small">{_text(category)}'
      f'frames: {_text(frames)}</span>{images}{_list(captions or ["no captions"])}</div>'
    )
  return f'<h3>{_text(split)}, evenly spaced samples</h3><div class="videos">{"".join(shown)}</div>'
