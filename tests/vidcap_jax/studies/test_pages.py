"""The files of a study's videos."""

from vidcap_jax.studies import pages


def test_file_names_for_any_ids():
  names = pages.file_names(['../a', 'ü/"', 'x' * 300])
  assert len({*names}) == 3
  assert all(len(name) < 70 and '/' not in name and '.' not in name for name in names)
