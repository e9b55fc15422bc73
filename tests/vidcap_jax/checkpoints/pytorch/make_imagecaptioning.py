"""Writes the fixtures of ImageCaptioning.pytorch: random weights, and what that code computes.

    git clone https://github.com/ruotianluo/ImageCaptioning.pytorch
    cd tests/vidcap_jax/checkpoints/pytorch
    python make_imagecaptioning.py --peer=…/ImageCaptioning.pytorch

It needs PyTorch, which no test does. NAME.npz beside this file holds the state dict (one array
after another, without the large table of positional encodings), infos.pkl as bytes, features of
images, captions with the log-probabilities of their words, and the captions of searches.
"""

import argparse
import io
import json
import pathlib
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).parent
WORDS = ['a', 'the', 'man', 'dog', 'red', 'ball', 'runs', 'sits', 'on', 'of', 'UNK']
IMAGES, REGIONS, LENGTH = 6, 5, 8
MODELS = {
  'updown': ['--rnn_size=8', '--input_encoding_size=6', '--att_hid_size=5'],
  'updown_bn': ['--rnn_size=8', '--input_encoding_size=6', '--att_hid_size=5', '--use_bn=1'],
  'transformer': ['--num_layers=2', '--input_encoding_size=8', '--rnn_size=12'],
}
# What their YAML files add to the flags.
EXTRA = {'transformer': {'N_enc': 1, 'num_att_heads': 2}}
SEEDS = {'updown': 35, 'updown_bn': 23, 'transformer': 38}  # captions differ and most of them end
SEARCHES = {
  'beam': {'beam_size': 3},
  'beam_avg': {'beam_size': 3, 'length_penalty': 'avg_1'},
  'greedy': {'beam_size': 1},
}


def make(name: str, torch, models, opts, misc) -> dict[str, np.ndarray]:
  """The arrays of a model's fixture."""
  kind = name.partition('_')[0]
  flags = [f'--caption_model={kind}', '--fc_feat_size=4', '--att_feat_size=3', *MODELS[name]]
  sys.argv = ['train.py', '--id=tiny', f'--max_length={LENGTH}', '--beam_size=3', *flags]
  opt = opts.parse_opt()
  opt.vocab_size, opt.seq_length = len(WORDS), LENGTH
  vars(opt).update(EXTRA.get(name, {}))
  vocab = {str(i): word for i, word in enumerate(WORDS, 1)}
  infos = {
    'iter': 120,
    'epoch': 2,
    'vocab': vocab,
    'opt': opt,
    'best_val_score': np.float64(0.5),
    'loader_state_dict': {'train': {'index_list': [2, 0, 1], 'iter_counter': 1}},
  }
  file = io.BytesIO()
  misc.pickle_dump(infos, file)

  torch.manual_seed(SEEDS[name])
  opt.vocab = vocab
  model = models.setup(opt).eval()
  with torch.no_grad():
    for key, value in model.state_dict().items():
      if not value.is_floating_point() or key.endswith('.pe'):
        continue
      if key.endswith(('running_var', 'a_2')):
        value.uniform_(0.5, 2)
      else:
        value.normal_(std=0.3 if value.dim() == 1 else 1.5 / value.shape[-1] ** 0.5)
  counts = torch.tensor([5, 3, 4, 1, 2, 5])
  inputs = {
    'fc_feats': torch.randn(IMAGES, 4),
    'att_feats': torch.randn(IMAGES, REGIONS, 3),
    'att_masks': (torch.arange(REGIONS)[None] < counts[:, None]).float(),
  }
  captions = torch.randint(1, len(WORDS) + 1, (IMAGES, LENGTH))
  captions[:, 0] = 0
  arrays = {f'inputs/{key}': value.numpy() for key, value in inputs.items()}
  weights = {k: v.numpy() for k, v in model.state_dict().items() if not k.endswith('.pe')}
  arrays['weights'] = np.concatenate([x.ravel().astype(np.float32) for x in weights.values()])
  arrays['shapes'] = as_bytes({key: x.shape for key, x in weights.items()})
  arrays['infos'] = np.frombuffer(file.getvalue(), np.uint8)
  arrays['captions'] = captions.numpy()
  with torch.no_grad():
    fc, att, mask = inputs.values()
    arrays['log_probs'] = model(fc, att, captions, mask).numpy()
    for search, options in SEARCHES.items():
      options = {**options, 'sample_n': 1, 'suppress_UNK': 1}
      found, _ = model(fc, att, mask, opt=options, mode='sample')
      texts = misc.decode_sequence(vocab, found)
      arrays[f'search/{search}'] = as_bytes(texts)
  return arrays


def as_bytes(data) -> np.ndarray:
  return np.frombuffer(json.dumps(data).encode(), np.uint8)


def main() -> None:
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument('--peer', required=True, help='a checkout of ImageCaptioning.pytorch')
  sys.path.insert(0, parser.parse_args().peer)
  import captioning.models as models
  import captioning.utils.misc as misc
  import torch
  from captioning.utils import opts

  for name in MODELS:
    np.savez_compressed(FOLDER / f'{name}.npz', **make(name, torch, models, opts, misc))


if __name__ == '__main__':
  main()
