"""Reading text, JSON and tables, and the errors of broken files."""

from tests.vidcap_jax.annotations.written import refused


def test_text_that_is_not_utf8_says_what_to_do(tmp_path):
  file = tmp_path / 'LSMDC16_annos_val.csv'
  file.write_bytes(b'a\tSOMEONE\x92s dog\n')
  refused('lsmdc', str(file), 'not UTF-8 text at byte 9; convert it .*iconv -f WINDOWS-1252')
  file.write_bytes('a\tthe dog\n'.encode('utf-16'))
  refused('lsmdc', str(file), 'not UTF-8 text at byte 0; convert it .*iconv -f UTF-16')
