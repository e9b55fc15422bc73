"""The Transformer captioner in plain numpy, one video, caption, word and head at a time.

Written from the equations, in float64: Vaswani et al. 2017 with the norm before each sublayer.
"""

import math

import numpy as np


def dense(p, x):
  return x @ p['kernel'] + p.get('bias', 0.0)


def norm(p, config, x):
  if config.norm == 'deviation':
    deviation = x.std(axis=-1, ddof=1, keepdims=True) + 1e-6
  else:
    deviation = np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
  return (x - x.mean(axis=-1, keepdims=True)) / deviation * p['scale'] + p['bias']


def activate(name, x):
  if name == 'relu':
    return np.maximum(x, 0)
  return x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2


def softmax(scores):
  odds = np.exp(scores - scores.max())
  return odds / odds.sum()


def attend(p, x, entries, allowed, heads):
  """What the rows of x (M, D) read of entries (N, D), and the weights (M, heads, N).

  ``allowed`` (M, N) says which entries each row may read.
  """
  d = x.shape[1] // heads
  queries, keys, values = dense(p['query'], x), dense(p['key'], entries), dense(p['value'], entries)
  context, weights = np.zeros(x.shape), np.zeros((len(x), heads, len(entries)))
  for m in range(len(x)):
    for h in range(heads):
      part = slice(h * d, (h + 1) * d)
      read = np.flatnonzero(allowed[m])
      if len(read):
        scores = keys[read][:, part] @ queries[m, part] / math.sqrt(d)
        weights[m, h, read] = softmax(scores)
        context[m, part] = weights[m, h] @ values[:, part]
  return dense(p['out'], context), weights


def feed(p, activation, x):
  return dense(p['out'], activate(activation, dense(p['inner'], x)))


def position(t, features):
  half = (features + 1) // 2
  angles = [t / 10_000 ** (i / half) for i in range(half)]
  return np.array([*map(math.sin, angles), *map(math.cos, angles)][:features])


def encoder_layer(p, config, x, valid):
  allowed = np.broadcast_to(valid, (len(x), len(x)))
  y = norm(p['attention_norm'], config, x)
  x = x + attend(p['attend'], y, y, allowed, config.heads)[0]
  return x + feed(p['feed'], config.activation, norm(p['feed_norm'], config, x))


def decoder_layer(p, config, x, video, valid):
  y = norm(p['self_norm'], config, x)
  x = x + attend(p['self_attend'], y, y, np.tri(len(x), dtype=bool), config.heads)[0]
  allowed = np.broadcast_to(valid, (len(x), len(video)))
  y, weights = attend(
    p['cross_attend'], norm(p['cross_norm'], config, x), video, allowed, config.heads
  )
  x = x + y
  return x + feed(p['feed'], config.activation, norm(p['feed_norm'], config, x)), weights


def encode(params, config, features, masks):
  """A video's tokens (N, D), and which are valid."""
  p, tokens, valid = params['encoder'], [], []
  for name in (*config.streams, *config.region_streams):
    of_stream = p[f'streams_{name}']
    x, mask = features[name], masks[name]
    for index in np.ndindex(mask.shape):
      token = dense(of_stream['project'], x[index] if mask[index] else np.zeros(x.shape[-1]))
      if config.stream_activation != 'none':
        token = activate(config.stream_activation, token)
      if len(index) >= 1 and config.stream_positions:
        token = token + position(index[0], config.hidden)
      if len(index) == 2 and name in config.streams and config.stream_positions:
        token = token + of_stream['places'][index[1]]
      tokens.append(token)
      valid.append(mask[index])
  x, valid = np.array(tokens), np.array(valid)
  for i in range(config.encoder_layers):
    x = encoder_layer(p[f'layers_{i}'], config, x, valid)
  return norm(p['norm'], config, x), valid


def logits(params, config, features, masks, words):
  """The logits (L, V) after each of the words that are read, and the last layer's weights.

  Args:
    params, config: of the model.
    features, masks: of one video.
    words: L ids.
  """
  video, valid = encode(params, config, features, masks)
  x = math.sqrt(config.embed) * params['words']['embedding'][words]
  if config.embed != config.hidden:
    x = dense(params['word_project'], x)
  x = x + np.array([position(t, config.hidden) for t in range(len(words))])
  for i in range(config.decoder_layers):
    x, weights = decoder_layer(params[f'decoder_{i}'], config, x, video, valid)
  x = norm(params['norm'], config, x)
  if config.tied:
    return x @ params['words']['embedding'].T + params['output_bias'], weights
  return dense(params['output'], x), weights
