"""Names of uploaded files."""

import pytest
from starlette.datastructures import UploadFile

from vidcap_jax.serving import uploads


@pytest.mark.parametrize(
  ('given', 'name', 'video_id'),
  [
    ('clip.mp4', 'clip.mp4', 'clip'),
    ('../../etc/passwd', 'passwd', 'passwd'),
    ('C:\\videos\\a b.tar.mp4', 'a b.tar.mp4', 'a b.tar'),
    ('Käse\x00\x1b[31m.png', 'Käse[31m.png', 'Käse[31m'),
    ('folder/', 'upload', 'upload'),
    ('', 'upload', 'upload'),
    (None, 'upload', 'upload'),
    ('.mp4', '.mp4', '.mp4'),
    ('x' * 5000 + '.mp4', 'x' * 196 + '.mp4', 'x' * 196),
    ('<script>.mp4', '<script>.mp4', '<script>'),
  ],
)
def test_names_of_files(given, name, video_id):
  assert uploads.file_name(UploadFile(None, filename=given)) == name
  assert uploads.video_id(name) == video_id
