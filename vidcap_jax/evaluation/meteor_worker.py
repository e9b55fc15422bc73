"""A second process of ``meteor_python``: JSON of captions and references in, an array out."""

import json
import sys

import numpy as np

from vidcap_jax.evaluation.meteor_python import best_statistics


def main() -> None:
  """Reads [captions, references] on standard input and writes their statistics as ``.npy``."""
  hypotheses, references = json.load(sys.stdin)
  np.save(sys.stdout.buffer, best_statistics(hypotheses, references))


if __name__ == '__main__':
  main()
