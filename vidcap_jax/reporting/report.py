"""Writes the report of an evaluation: from its results, its data set and its checkpoint."""

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.data.key_frames import attach
from vidcap_jax.data.records import open_split
from vidcap_jax.errors import UserError, VideoError
from vidcap_jax.evaluation.metrics import References
from vidcap_jax.progress import progress
from vidcap_jax.reporting import attention, comparison, curves, findings, folder, scores
from vidcap_jax.reporting import inputs as report_inputs
from vidcap_jax.reporting.evaluations import Evaluation
from vidcap_jax.reporting.inputs import Inputs
from vidcap_jax.reporting.pictures import FramePictures, write_strip
from vidcap_jax.reporting.scores import Scored
from vidcap_jax.reporting.settings import Options

_MOST_NOTES = 10  # on single videos


def write(
  own: Evaluation,
  options: Options,
  log: Callable[[str], None],
  members: Sequence[Restored] | None = None,
) -> pathlib.Path:
  """Writes a report.

  Args:
    own: the results.
    options: see there.
    log: prints what is done, and what is left out.
    members: the checkpoints of the results; None restores them.

  Returns:
    The page.

  Raises:
    UserError: the output can't be written, or an option fits nothing that is there.
    MetricError: a scoring program failed.
  """
  inputs = report_inputs.read(own, options, log, members)
  references = scores.references_of(own, inputs.data, inputs.by_character)
  both = [own, inputs.other] if inputs.other else [own]
  scored = scores.score(both, references, log)
  changes = {}
  if len(scored) > 1:
    changes = findings.differences(scored[0].per_video, scored[1].per_video, 'CIDEr')
  folder.prepare(inputs.output)
  orders = _orders(inputs, scored[0], changes)
  shards = _write_attention(inputs, orders, options.attention, log)
  strips = _write_strips(inputs, log)
  _write_videos(inputs, scored[0], changes, strips)
  starts = folder.write_shards(inputs.output, 'texts', _texts(inputs))
  summary = _summary(inputs, scored, references, changes)
  summary |= {'orders': orders, 'texts': starts, 'attention': shards}
  folder.write_data(inputs.output, 'summary', summary)
  folder.write_page(inputs.output, f'{own.label}: {own.split}')
  return inputs.output / folder.INDEX


def _orders(inputs: Inputs, scored: Scored, changes: Mapping[str, float]) -> dict[str, list[int]]:
  """The numbers of the videos from worst, from best, and from most uncertain."""
  per_video = scored.per_video
  ciders = [per_video[id_]['CIDEr'] if id_ in per_video else None for id_ in inputs.ids]
  certainties = [scores.word_probability(entry) for entry in inputs.own.captions]
  orders = {
    'worst': findings.ordered(ciders),
    'best': findings.ordered(ciders, highest=True),
    'uncertain': findings.ordered(certainties),
  }
  if changes:
    sizes = [abs(changes[id_]) for id_ in inputs.ids]
    orders['changed'] = findings.ordered(sizes, highest=True)
  return orders


def _write_attention(
  inputs: Inputs,
  orders: Mapping[str, Sequence[int]],
  most: int,
  log: Callable[[str], None],
) -> dict[str, list[int]]:
  """Writes the attention of videos.

  Returns:
    videos: the numbers of those with attention; starts: which of these each file begins with.
  """
  captions = [entry['caption'] for entry in inputs.own.captions]
  able = (
    {n for n, text in enumerate(captions) if attention.can_explain(inputs.members, text)}
    if (inputs.members and inputs.data)
    else set()
  )
  heads = [[n for n in order if n in able] for order in orders.values()]
  if not any(heads):
    heads = [sorted(able)]
  chosen = findings.chosen_for_attention(heads, most)
  described = _described(inputs, chosen, log) if chosen else []
  if len(described) < len(chosen):
    chosen = []
  return {
    'videos': chosen,
    'starts': folder.write_shards(inputs.output, 'attention', described),
  }


def _described(
  inputs: Inputs, chosen: Sequence[int], log: Callable[[str], None]
) -> list[dict[str, Any]]:
  """The attention of videos as JSON; [] if the model has none."""
  assert inputs.data is not None
  ids, captions = inputs.ids, [entry['caption'] for entry in inputs.own.captions]
  restored = inputs.members[0]
  places = {video_id: place for place, video_id in enumerate(inputs.data.videos)}
  split = attach(open_split(inputs.data.directory, inputs.own.split), restored.key_frames)
  videos = (split[places[ids[number]]] for number in chosen)
  notes: list[str] = []
  frame_pictures = FramePictures(restored, inputs.output, inputs.boxes, notes)
  described = []
  try:
    explained = attention.explain(inputs.members, videos, [captions[number] for number in chosen])
    label = f'attention of {inputs.own.split}'
    for number, each in zip(
      chosen, progress(explained, len(chosen), label, first='compiling'), strict=True
    ):
      source = inputs.sources.get(each.video.video_id)
      shown = frame_pictures.write(number, each.video, source, each.frames)
      described.append(attention.as_json(captions[number], each, shown.__getitem__))
  except UserError as error:
    log(f'no attention: {error}')
    return []
  finally:
    _log_notes(notes, log)
  return described


def _log_notes(notes: Sequence[str], log: Callable[[str], None]) -> None:
  """Prints the first of many notes on single videos, and how many more there are."""
  different = list(dict.fromkeys(notes))
  for note in different[:_MOST_NOTES]:
    log(note)
  if len(different) > _MOST_NOTES:
    log(f'… and {len(different) - _MOST_NOTES} more notes like these')


def _write_strips(inputs: Inputs, log: Callable[[str], None]) -> list[tuple[int, int] | None]:
  """Writes a picture of each video; returns their widths and heights, None for none."""
  sizes: list[tuple[int, int] | None] = [None] * len(inputs.ids)
  notes: list[str] = []
  found = [(n, inputs.sources[id_]) for n, id_ in enumerate(inputs.ids) if id_ in inputs.sources]
  for number, source in progress(found, len(found), 'pictures'):
    try:
      sizes[number] = write_strip(inputs.output, number, source, notes)
    except VideoError as error:
      notes.append(f'{inputs.ids[number]}: no pictures: {error}')
  _log_notes(notes, log)
  return sizes


def _write_videos(
  inputs: Inputs,
  scored: Scored,
  changes: Mapping[str, float],
  strips: Sequence[tuple[int, int] | None],
) -> None:
  """Writes what the table shows of all videos, a list for each column."""
  rounded = lambda value: None if value is None else round(value, 4)  # noqa: E731
  ids, per_video = inputs.ids, scored.per_video
  names = [n for n in scores.NAMES if n in next(iter(per_video.values()), {})]
  columns = {name: [rounded(per_video[id_][name]) for id_ in ids] for name in names}
  columns['certainty'] = [rounded(scores.word_probability(e)) for e in inputs.own.captions]
  videos: dict[str, Any] = {
    'ids': ids,
    'captions': [entry['caption'] for entry in inputs.own.captions],
    'columns': columns,
    'strips': strips,
  }
  if inputs.other is not None:
    texts = inputs.other.hypotheses
    videos['others'] = [texts[id_] for id_ in ids]
    if changes:
      columns['change'] = [changes[id_] for id_ in ids]
  folder.write_data(inputs.output, 'videos', videos)


def _texts(inputs: Inputs) -> list[list[Any]]:
  """(references, n-best captions with log-probabilities) of each video."""
  rows = []
  for entry in inputs.own.captions:
    own = inputs.data.videos[entry['video_id']].captions if inputs.data else ()
    candidates = [[c['caption'], c.get('log_prob')] for c in entry.get('captions', ())]
    rows.append([list(own), candidates])
  return rows


def _summary(
  inputs: Inputs,
  scored: Sequence[Scored],
  references: References | None,
  changes: Mapping[str, float],
) -> dict[str, Any]:
  """All that the page shows besides the videos."""
  own, contents = inputs.own, inputs.own.metrics
  captions = [entry['caption'] for entry in own.captions]
  vocabulary = set(inputs.members[0].vocabulary.words) if inputs.members else None
  words: Mapping[str, Any] = {'unsaid': [], 'unknown': []}
  if references is not None:
    words = findings.unsaid_words(captions, references, vocabulary)
  workdirs = {e.label: e.workdir for e in (own, inputs.other) if e and e.workdir}
  summary: dict[str, Any] = {
    'label': own.label,
    'split': own.split,
    'videos': len(captions),
    'data': contents['data']['name'],
    'stage': contents['stage'],
    'step': contents['checkpoint_step'],
    'scores': [
      [name, value, *comparison.other_interval(scored[0], name)]
      for name, value in scored[0].corpus.items()
    ],
    'constant': [contents.get('constant_caption'), contents.get('constant_CIDEr')],
    'oracle': [contents.get(name) for name in ('candidates', 'oracle_CIDEr', 'random_CIDEr')],
    'signature': contents.get('signature'),
    'decode': [[key, str(value)] for key, value in contents.get('decode', {}).items()],
    'diversity': {
      'distinct_captions': len({*captions}),
      **{n: contents.get(n) for n in ('mean_words', 'vocabulary_used', 'novel_captions')},
    },
    'notes': scores.changed_since(own, scored[0]),
    'curves': curves.panels(workdirs),
    'repeated': findings.repeated(captions),
    'words': words,
    'compare': None,
  }
  if inputs.other is not None:
    summary['compare'] = comparison.as_json(own, inputs.other, scored, changes)
  return summary
