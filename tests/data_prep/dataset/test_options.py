"""The options of a build: defaults, names and what the manifest records."""

import pytest

from data_prep.dataset import options as options_module
from tests.building import options
from vidcap_jax.errors import DataError


def test_default_tokenizer_depends_on_the_language(tmp_path):
  resolve = options_module.resolve
  assert resolve(options(tmp_path)).tokenizer == 'ptb_like'
  assert resolve(options(tmp_path, language='zh')).tokenizer == 'by_character'
  assert resolve(options(tmp_path, language='zh', tokenizer='whitespace')).tokenizer == 'whitespace'


@pytest.mark.parametrize(
  ('missing', 'bad', 'skip'),
  [('fail', None, False), ('skip', None, True), ('skip', 'fail', False), ('fail', 'skip', True)],
)
def test_bad_features_are_treated_like_missing_ones_by_default(tmp_path, missing, bad, skip):
  assert options(tmp_path, missing=missing, bad=bad).skip_bad == skip


def test_names_come_from_the_folder_unless_given(tmp_path):
  assert options_module.dataset_name(options(tmp_path, out='data/My-Clips')) == 'my_clips'
  assert options_module.dataset_name(options(tmp_path, name='clips')) == 'clips'
  with pytest.raises(DataError, match='--name=My Clips'):
    options_module.dataset_name(options(tmp_path, name='My Clips'))


def test_record_has_the_options_that_are_set(tmp_path):
  recorded = options_module.recorded(options(tmp_path, optional=('audio',), overwrite=True))
  assert recorded['optional'] == ['audio']  # as JSON has it
  assert recorded['form'] == 'csv'
  assert not recorded.keys() & {'out', 'overwrite', 'splits', 'kinds', 'readers'}
