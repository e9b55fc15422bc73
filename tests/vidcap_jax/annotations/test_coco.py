"""COCO captions, by small files in their exact schema."""

from tests.vidcap_jax.annotations.written import listing, refused, sources, write
from vidcap_jax.annotations import read_annotations


def test_coco(tmp_path):
  data = {
    'info': {},
    'licenses': [],
    'type': 'captions',
    'images': [{'id': 7, 'file_name': 'v7.mp4'}, {'id': 'video8', 'split': 'test'}],
    'annotations': [
      {'image_id': 7, 'id': 0, 'caption': 'a dog'},
      {'image_id': 'video8', 'id': 1, 'caption': 'a cat'},
      {'image_id': 7, 'id': 2, 'caption': 'it runs'},
    ],
  }
  found = read_annotations('coco', [write(tmp_path / 'captions_val2014.json', data)])
  assert listing(found) == [('7', 'val', ['a dog', 'it runs']), ('video8', 'test', ['a cat'])]
  assert sources(found) == ['v7.mp4', None]
  data['annotations'] += [{'image_id': 9, 'caption': 'x'}, {'image_id': 7}]
  expected = r'annotations\[3\]: "image_id" is 9, which no image has; .*\[4\]: no text under'
  refused('coco', write(tmp_path / 'a.json', data), expected)
  refused('coco', write(tmp_path / 'a.json', [data]), 'not a COCO file')
