r"""Word classes of the captions of checkpoints, and what their attention does at each class.

  vidcap studies word_classes --checkpoint=runs/st,runs/ts --split=test \
      --json=FILE --plot=FILE.png

As in STaTS Figure 5: the commonest nouns and verbs of the captions without the first five, and the
shares of nouns, verbs and adjectives among them. Beside it, by class: the entropy of every
attention's weights, and the mean weights of layers and branches (dualAFR's layers by class).
Several checkpoints are compared.
"""

import argparse
import collections
import dataclasses
import json
import logging
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from vidcap_jax import command_arguments, command_errors
from vidcap_jax.checkpoints import restore
from vidcap_jax.checkpoints.restore import Restored
from vidcap_jax.counts import counted
from vidcap_jax.data.records import Video, open_split
from vidcap_jax.data.schema import read_manifest
from vidcap_jax.distributed import mesh
from vidcap_jax.errors import ConfigError, DataError
from vidcap_jax.evaluation.evaluate import check_streams
from vidcap_jax.files import check_output
from vidcap_jax.program_name import program_name
from vidcap_jax.progress import progress
from vidcap_jax.studies import parts_of_speech
from vidcap_jax.studies.drawing import bars, check_plot, figure
from vidcap_jax.studies.parts_of_speech import ADJECTIVE, CLASSES, NOUN, VERB
from vidcap_jax.studies.weights import Attention, Explained, axes_of, make_explainer

DROPPED, SHOWN = 5, 20  # nouns and verbs that are left out as the commonest, and shown
CONTENT = (NOUN, VERB, ADJECTIVE)  # classes whose shares are compared
_COLOURS = {NOUN: '#3b78c4', VERB: '#d62728'}


@dataclasses.dataclass
class Tally:
  """What is counted over captions.

  Attributes:
    words: (word, class) -> occurrences.
    entropies: attention -> class -> (entropy, share of the largest possible entropy) of each word.
    weights: attention -> class -> weights of layers or branches at each word.
    captions: how many there were.
  """

  words: collections.Counter = dataclasses.field(default_factory=collections.Counter)
  entropies: dict = dataclasses.field(default_factory=dict)
  weights: dict = dataclasses.field(default_factory=dict)
  captions: int = 0

  def add(self, explained: Explained, classes: Sequence[str]) -> None:
    """Counts a caption's words, which have these classes."""
    self.captions += 1
    self.words.update(zip(explained.words, classes))
    for name, attention in explained.attentions.items():
      pairs = entropies(attention)
      by_class = self.entropies.setdefault(name, {c: [] for c in CLASSES})
      for word_class, pair in zip(classes, pairs):
        if np.isfinite(pair).all():
          by_class[word_class].append(pair)
      if attention.axes.names:
        means = self.weights.setdefault(name, {c: [] for c in CLASSES})
        for word_class, weights in zip(classes, attention.weights):
          means[word_class].append(weights)


def entropies(attention: Attention) -> np.ndarray:
  """The entropy at each word in nats, and as a share of the largest possible: (L, 2).

  The largest is the logarithm of the number of entries: of the words read so far, for attention to
  words. Picks are averaged. NaN where all weights are 0, or with one entry only.
  """
  weights = attention.weights
  L = len(weights)
  picks = weights.shape[1] if 'picks' in attention.axes.axes else 1
  flat = weights.reshape(L, picks, -1).astype(float)
  terms = np.where(flat > 0, flat * np.log(np.where(flat > 0, flat, 1)), 0)
  found = -terms.sum(axis=-1).mean(axis=-1)  # (L,)
  entries = np.full(L, flat.shape[-1])
  if attention.axes.axes == ('words',):
    entries = np.arange(1, L + 1)
  with np.errstate(divide='ignore', invalid='ignore'):
    shares = np.where(entries > 1, found / np.log(entries), np.nan)
  shares[flat.sum(axis=(1, 2)) == 0] = np.nan
  return np.stack([found, shares], axis=-1)


def count(
  restored: Restored,
  videos: Iterable[Sequence[Video]],
  tag: Callable[[Sequence[str]], list[str]],
) -> Tally:
  """Counts over a checkpoint's captions of videos, given in groups."""
  explain, tally = make_explainer(restored), Tally()
  for group in videos:
    for explained in explain(group, None):
      tally.add(explained, tag(explained.words))
  return tally


def summarise(tally: Tally) -> dict:
  """The numbers of a checkpoint for --json."""
  by_class = collections.Counter[str]()
  for (_, word_class), number in tally.words.items():
    by_class[word_class] += number
  content = sum(by_class[c] for c in CONTENT)
  classes = {
    c: {
      'count': by_class[c],
      'share': by_class[c] / content if c in CONTENT and content else None,
    }
    for c in CLASSES
  }
  top = top_words(tally.words)
  attentions = {}
  for name, found in tally.entropies.items():
    attentions[name] = {c: _class_means(found[c], tally, name, c) for c in CLASSES if found[c]}
  return {
    'captions': tally.captions,
    'classes': classes,
    'top_words': [{'word': w, 'class': c, 'count': n} for w, c, n in top],
    'top_nouns': sum(c == NOUN for _, c, _ in top),
    'top_verbs': sum(c == VERB for _, c, _ in top),
    'attentions': attentions,
  }


def _class_means(pairs: Sequence, tally: Tally, name: str, word_class: str) -> dict:
  entropy, share = np.mean(pairs, axis=0)
  means = {'words': len(pairs), 'entropy': float(entropy), 'share_of_largest': float(share)}
  if name in tally.weights:
    means['weights'] = np.mean(tally.weights[name][word_class], axis=0).tolist()
  return means


def top_words(words: Mapping[tuple[str, str], int]) -> list[tuple[str, str, int]]:
  """(word, class, occurrences) of the commonest nouns and verbs after the first ``DROPPED``.

  A word that is both is counted as what it is more often.
  """
  counts: dict[str, collections.Counter] = {}
  for (word, word_class), number in words.items():
    if word_class in (NOUN, VERB):
      counts.setdefault(word, collections.Counter())[word_class] += number
  ranked = sorted(counts, key=lambda word: (-counts[word].total(), word))
  return [
    (word, counts[word].most_common(1)[0][0], counts[word].total())
    for word in ranked[DROPPED : DROPPED + SHOWN]
  ]


def groups_of(restored: Restored, directory: str, split: str) -> Iterator[list[Video]]:
  """The videos of a split, as many at a time as a batch has.

  Raises:
    DataError: no such split, or a data set that does not fit the checkpoint.
  """
  manifest = read_manifest(directory)
  if split not in manifest.splits:
    raise DataError(
      f'--split={split}: {directory} has no such split; it has: {", ".join(manifest.splits)}'
    )
  check_streams(restored, manifest, directory)
  source = open_split(directory, split)
  size = restored.config.eval.batch_size
  starts = range(0, len(source), size)
  return (
    [source[i] for i in range(start, min(start + size, len(source)))]
    for start in progress(starts, len(source), 'explaining', each=size, first='compiling')
  )


# ------------------------------------------------------------------------------ output


def table(label: str, result: Mapping, names: Mapping[str, Sequence[str]]) -> str:
  """A checkpoint's numbers as text."""
  classes = result['classes']
  shares = ', '.join(f'{c} {classes[c]["share"] or 0:.1%}' for c in CONTENT)
  lines = [
    f'{label}: {counted(result["captions"], "caption")}; of nouns, verbs and adjectives: {shares}',
    f'  top {len(result["top_words"])}: {result["top_nouns"]} nouns, {result["top_verbs"]} verbs: '
    + ', '.join(row['word'] for row in result['top_words']),
  ]
  for name, by_class in result['attentions'].items():
    layers = ''.join(f'  {layer}' for layer in names.get(name, ()))
    lines.append(f'  {name}: entropy, share of the largest{layers}')
    for word_class, means in by_class.items():
      weights = ''.join(f'  {w:.2f}' for w in means.get('weights', ()))
      lines.append(
        f'    {word_class:10} {means["entropy"]:6.3f} {means["share_of_largest"]:6.3f}{weights}'
        f'  ({counted(means["words"], "word")})'
      )
  return '\n'.join(lines)


def plot(
  results: Mapping[str, Mapping], names: Mapping[str, Sequence[str]], path: str | pathlib.Path
) -> None:
  """Draws a row for each checkpoint: its top words, shares, entropies, and weights by class."""
  columns = 3 + max(sum(name in names for name in r['attentions']) for r in results.values())
  picture = figure(figsize=(4.5 * columns, 4.2 * len(results)))
  grid = picture.subplots(len(results), columns, squeeze=False)
  for panels, (label, result) in zip(grid, results.items()):
    for panel in panels:
      panel.set_visible(False)
    _draw_words(panels[0], label, result)
    panels[1].set_visible(True)
    bars(panels[1], list(CONTENT), {'share': [result['classes'][c]['share'] for c in CONTENT]})
    panels[1].set_title('share of the words of these classes')
    if not result['attentions']:
      continue
    shown = [c for c in CLASSES if any(c in found for found in result['attentions'].values())]
    heights = {
      name: [found[c]['share_of_largest'] if c in found else None for c in shown]
      for name, found in result['attentions'].items()
    }
    panels[2].set_visible(True)
    bars(panels[2], shown, heights)
    panels[2].set_title('entropy / largest entropy')
    panels[2].tick_params(axis='x', rotation=30)
    weighted = [name for name in result['attentions'] if name in names]
    for panel, name in zip(panels[3:], weighted):
      panel.set_visible(True)
      found = result['attentions'][name]
      layers = {
        layer: [found[c]['weights'][i] if c in found else None for c in shown]
        for i, layer in enumerate(names[name])
      }
      bars(panel, shown, layers)
      panel.set_title(f'mean weights of {name}')
      panel.tick_params(axis='x', rotation=30)
  for column in range(1, columns):  # runs are compared: the same scale for all
    drawn = [panel for panel in grid[:, column] if panel.get_visible()]
    top = max((panel.get_ylim()[1] for panel in drawn), default=1.0)
    for panel in drawn:
      panel.set_ylim(0, top)
  picture.savefig(path, dpi=100)


def _draw_words(panel, label: str, result: Mapping) -> None:
  """The top words as horizontal bars, coloured by class."""
  panel.set_visible(True)
  rows = result['top_words'][::-1]
  if not rows:
    panel.set(xticks=[], yticks=[])
    about = f'too few words: the {DROPPED} commonest are left out'
    panel.text(0.5, 0.5, about, ha='center', va='center', transform=panel.transAxes)
  colours = [_COLOURS[row['class']] for row in rows]
  panel.barh(range(len(rows)), [row['count'] for row in rows], color=colours)
  panel.set_yticks(range(len(rows)), [row['word'] for row in rows], fontsize=8)
  panel.set_title(
    f'{label}: {result["top_nouns"]} nouns (blue), {result["top_verbs"]} verbs (red)',
    parse_math=False,
  )


def labels_of(paths: Sequence[str]) -> list[str]:
  """A name for each checkpoint: the last part of its path, or all of it if two would be equal."""
  short = [pathlib.Path(path).name for path in paths]
  return short if len({*short}) == len(short) else list(paths)


def run(options: argparse.Namespace) -> None:
  """Counts, prints, and writes what the flags ask for.

  Raises:
    ConfigError: a checkpoint makes no captions, or is named twice.
    DataError: no such split, or data that does not fit.
    ModuleNotFoundError: HanTa, or for --plot matplotlib, is not installed.
  """
  if options.plot:
    check_plot('--plot', options.plot)
  if options.json:
    check_output('--json', options.json)
  tag = parts_of_speech.load_tagger()
  paths = options.checkpoint.split(',')
  if len({*paths}) < len(paths):
    raise ConfigError(f'--checkpoint={options.checkpoint}: names a checkpoint twice')
  results: dict[str, dict] = {}
  names: dict[str, tuple[str, ...]] = {}
  for label, path in zip(labels_of(paths), paths):
    restored = restore.restore(restore.find_checkpoint(path), mesh.make_mesh(), options.decode)
    names |= {n: axes.names for n, axes in axes_of(restored).items() if axes.names}
    groups = groups_of(restored, restored.data_folder(options.data), options.split)
    results[label] = summarise(count(restored, groups, tag)) | {'checkpoint': str(restored.path)}
    print(table(label, results[label], names), flush=True)
  if options.json:
    written = {
      'tagger': parts_of_speech.version(),
      'split': options.split,
      'names': {name: list(layers) for name, layers in names.items()},
      'checkpoints': results,
    }
    text = json.dumps(written, indent=1, ensure_ascii=False) + '\n'
    pathlib.Path(options.json).write_text(text, encoding='utf-8')
  if options.plot:
    plot(results, names, options.plot)


def make_parser() -> argparse.ArgumentParser:
  """The command's flags."""
  parser = argparse.ArgumentParser(
    prog=program_name('vidcap_jax.studies.word_classes'),
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add('--checkpoint', required=True, metavar='DIR,…', help='workdirs or step folders')
  add('--data', metavar='DIR', help='data set folder (default: the one trained on)')
  add('--split', default='test', help='of the data set (default: %(default)s)')
  add('--decode', action='append', default=[], metavar='KEY=VALUE', help='a decoding setting')
  add('--json', metavar='FILE', help='write all numbers there')
  add('--plot', metavar='FILE', help='draw them there (.png, .pdf, .svg)')
  return parser


@command_errors.exit_on_error()
def main(arguments: Sequence[str] | None = None) -> None:
  """The command; see the module's docstring."""
  options = command_arguments.parse(make_parser(), arguments)
  logging.getLogger('absl').setLevel(logging.WARNING)  # Orbax logs each file it touches
  run(options)


if __name__ == '__main__':
  main()
