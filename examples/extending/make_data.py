"""Writes a tiny data set in the forms of this folder: captions.notes, splits.json, features.csv.

  python -m examples.extending.make_data --output=DIR

Twelve videos of red, green and blue balls, with two captions and two or three frames each.
"""

import argparse
import json
import pathlib

import numpy as np

COLOURS = ('red', 'green', 'blue')


def write(folder: pathlib.Path) -> None:
  """Writes the three files; the features of a frame show the ball's colour."""
  folder.mkdir(parents=True, exist_ok=True)
  rng = np.random.default_rng(0)
  captions, frames = [], []
  splits: dict[str, list[str]] = {'train': [], 'val': [], 'test': []}
  for i in range(12):
    name, colour = f'clip{i}', COLOURS[i % 3]
    splits['train' if i < 6 else 'val' if i < 9 else 'test'].append(name)
    captions += [f'# {name}', f'a {colour} ball', f'the ball is {colour}']
    for _ in range(2 + i % 2):
      values = rng.normal(size=4) / 8 + 2 * np.eye(4)[i % 3]
      frames.append(','.join([name, *(f'{value:.4f}' for value in values)]))
  for file, text in {
    'captions.notes': '\n'.join(captions),
    'splits.json': json.dumps(splits),
    'features.csv': '\n'.join(frames),
  }.items():
    (folder / file).write_text(text + '\n', encoding='utf-8')


if __name__ == '__main__':
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  parser.add_argument('--output', '--out', required=True, metavar='DIR', type=pathlib.Path)
  write(parser.parse_args().output)
