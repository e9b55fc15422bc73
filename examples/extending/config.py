"""A config: the model and the objective of this folder on a data set of your own.

  python -m examples.extending.make_data --output=own
  vidcap build --format=examples.extending.annotation_form:read --min_count=1 \\
      --annotations=own/captions.notes --splits=own/splits.json \\
      --features=image=own/features.csv \\
      --readers=image=examples.extending.feature_format:CsvReader --output=data/own
  vidcap train --config=examples/extending/config.py --config.data.dir=data/own \\
      --workdir=runs/own
"""

from ml_collections import ConfigDict

from configs import common


def get_config() -> ConfigDict:
  """The settings that differ from ``configs/common.py``, which explains all of them."""
  c = common.base()
  c.model = ConfigDict(
    {
      'name': 'examples.extending.model:MeanGRU',
      'streams': ('image',),
      'hidden': 256,
      'embed': 256,
      'dropout': 0.3,
    }
  )
  c.objective = ConfigDict({'name': 'examples.extending.objective:make', 'gamma': 1.0})
  c.data.length_buckets = ()  # One compilation: it takes longer than the steps on a small data set.
  c.train.epochs = 10.0
  c.optimizer.learning_rate = 2e-3
  return c.lock()
