"""WebVid, by small files in its exact schema."""

from tests.vidcap_jax.annotations.written import listing, refused, sources, write
from vidcap_jax.annotations import read_annotations


def test_webvid(tmp_path):
  text = (
    'videoid,contentUrl,duration,page_dir,name\n'
    '31353427,https://s/31353427.mp4,PT00H00M10S,000001_000050,"Merida, mexico - tourists"\n'
    '21179416,https://s/2.mp4,PT00H00M20S,000001_000050,Aerial shot\n'
  )
  found = read_annotations('webvid', [write(tmp_path / 'results_2M_train.csv', text)])
  assert listing(found) == [
    ('31353427', 'train', ['Merida, mexico - tourists']),
    ('21179416', 'train', ['Aerial shot']),
  ]
  assert sources(found)[1] == 'https://s/2.mp4'
  refused('webvid', write(tmp_path / 'a.csv', 'videoid,text\n1,a\n'), 'one of them name; found')
