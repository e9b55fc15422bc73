"""What to use in place of the flags of PyTorch projects, such as ``--lr`` and ``--beam_size``.

docs/from-pytorch.md has the table of options with its remarks; the names here are those that belong
to one key, and common ones of other projects.
"""

from collections.abc import Collection

from vidcap_jax.config_section import near_keys

# Flag -> config key.
KEYS = {
  **dict.fromkeys(('lr', 'learning_rate', 'base_lr'), 'optimizer.learning_rate'),
  **dict.fromkeys(('optim', 'opt'), 'optimizer.name'),
  **dict.fromkeys(('optim_alpha', 'beta1'), 'optimizer.b1'),
  **dict.fromkeys(('optim_beta', 'beta2'), 'optimizer.b2'),
  **dict.fromkeys(('optim_epsilon', 'adam_epsilon'), 'optimizer.eps'),
  'wd': 'optimizer.weight_decay',
  'weight_decay': 'optimizer.weight_decay',
  **dict.fromkeys(
    ('grad_clip', 'grad_clip_value', 'gradient_clip', 'clip_grad', 'max_grad_norm'),
    'optimizer.clip_norm',
  ),
  **dict.fromkeys(('lr_scheduler', 'scheduler', 'lr_schedule'), 'optimizer.schedule.name'),
  **dict.fromkeys(('gamma', 'learning_rate_decay_rate'), 'optimizer.schedule.factor'),
  **dict.fromkeys(('warmup', 'warmup_epochs'), 'optimizer.schedule.warmup_epochs'),
  **dict.fromkeys(('batch', 'bs', 'batch_size', 'train_batch_size'), 'train.batch_size'),
  **dict.fromkeys(('eval_batch_size', 'val_batch_size', 'test_batch_size'), 'eval.batch_size'),
  **dict.fromkeys(
    ('epoch', 'epochs', 'max_epoch', 'max_epochs', 'n_epochs', 'num_epochs', 'num_train_epochs'),
    'train.epochs',
  ),
  **dict.fromkeys(('pretrained', 'start_from', 'init_from', 'load_weights'), 'train.init_from'),
  'label_smoothing': 'train.label_smoothing',
  'ss_factor': 'train.scheduled_sampling.eta',
  'scheduled_sampling_start': 'train.scheduled_sampling.start_epoch',
  'scheduled_sampling_increase_every': 'train.scheduled_sampling.every_epochs',
  'scheduled_sampling_increase_prob': 'train.scheduled_sampling.increase',
  'scheduled_sampling_max_prob': 'train.scheduled_sampling.most',
  **dict.fromkeys(('seed', 'manual_seed', 'random_seed'), 'seed'),
  **dict.fromkeys(('max_len', 'max_length', 'max_caption_len', 'seq_length'), 'data.max_words'),
  **dict.fromkeys(('num_frames', 'n_frames', 'max_frames'), 'data.max_frames'),
  **dict.fromkeys(('num_workers', 'workers', 'n_workers', 'j'), 'data.workers'),
  'seq_per_img': 'data.captions_per_video',
  **dict.fromkeys(('data_dir', 'data_path', 'data_root', 'dataset', 'dataroot'), 'data.dir'),
  **dict.fromkeys(('model', 'caption_model', 'arch'), 'model.name'),
  **dict.fromkeys(
    ('rnn_size', 'dim_hidden', 'rnn_hidden_size', 'hidden_size', 'hidden_dim'), 'model.hidden'
  ),
  **dict.fromkeys(
    ('input_encoding_size', 'dim_word', 'embedding_size', 'embed_size', 'embed_dim', 'word_dim'),
    'model.embed',
  ),
  **dict.fromkeys(('att_hid_size', 'rnn_attn_size', 'att_size'), 'model.attention'),
  **dict.fromkeys(
    ('drop_prob_lm', 'rnn_dropout', 'rnn_dropout_p', 'dropout', 'drop_prob'), 'model.dropout'
  ),
  **dict.fromkeys(('beam', 'beam_size', 'beam_width', 'num_beams'), 'decode.beam'),
  **dict.fromkeys(('sample_method', 'decoding', 'decode_method'), 'decode.method'),
  **dict.fromkeys(('num_return_sequences', 'n_best', 'nbest'), 'decode.n_best'),
  'temperature': 'decode.temperature',
  'top_k': 'decode.top_k',
  'top_p': 'decode.top_p',
  'length_penalty': 'decode.length_penalty',
  'min_length': 'decode.min_length',
  **dict.fromkeys(('group_size', 'num_beam_groups'), 'decode.groups'),
  **dict.fromkeys(('diversity_lambda', 'diversity_penalty'), 'decode.diversity'),
  'no_repeat_ngram_size': 'decode.no_repeat_ngram',
  **dict.fromkeys(('val_every', 'eval_every', 'evaluate_every'), 'eval.every_epochs'),
  **dict.fromkeys(('patience', 'early_stopping'), 'eval.patience'),
  **dict.fromkeys(('save_checkpoint_every', 'save_steps', 'save_every'), 'checkpoint.every_steps'),
  **dict.fromkeys(('log_interval', 'log_every', 'logging_steps', 'print_freq'), 'log.every_steps'),
}
_DEVICES = (
  'JAX uses all devices that it finds; the environment variable JAX_PLATFORMS=cpu limits it'
)
# Mode -> flag -> what to do; '' holds for every mode.
_ADVICE = {
  '': dict.fromkeys(('cuda', 'device', 'devices', 'gpu', 'gpu_id', 'gpus', 'no_cuda'), _DEVICES),
  'train': {
    **dict.fromkeys(
      ('checkpoint_dir', 'checkpoint_path', 'exp_dir', 'log_dir', 'output_dir', 'save_dir'),
      'name the folder with --workdir',
    ),
    'resume': 'the same command with the same --workdir resumes',
    **dict.fromkeys(
      ('amp', 'bf16', 'fp16', 'mixed_precision'), 'did you mean --config.train.dtype=bfloat16?'
    ),
    **dict.fromkeys(
      ('min_count', 'min_word_count', 'word_count_threshold'),
      'words are chosen when the data set is built: vidcap build --min_count',
    ),
    **dict.fromkeys(
      ('feats_dir', 'input_att_dir', 'input_fc_dir'),
      'features are read when the data set is built: vidcap build --features',
    ),
  },
  **dict.fromkeys(
    ('evaluate', 'predict', 'export'),
    {
      **dict.fromkeys(
        ('checkpoint_path', 'ckpt', 'load', 'model_path', 'resume', 'weights_path'),
        'name the workdir or step folder with --checkpoint',
      ),
      'output_dir': 'name the folder with --output',
    },
  ),
}
# Mode that reads a checkpoint -> config key -> flag.
_OTHER_FLAGS: dict[str, dict[str, str]] = {
  'evaluate': {'data.dir': '--data'},
  'predict': {},
  'export': {},
}
_MOST = 4  # keys that a message suggests


def key_of(name: str) -> str:
  """The config key that a PyTorch project's option corresponds to, or the name itself.

  Args:
    name: an option, or a misspelt key whose last part is one, e.g. 'optimizer.lr'.
  """
  return KEYS.get(name.rpartition('.')[2], name)


def instead_of(flag: str, value: str, mode: str, known: Collection[str]) -> str:
  """What to use in place of a flag that does not exist; '' where nothing is alike.

  Args:
    flag: its name.
    value: its value; '' for none.
    mode: the ``--mode``.
    known: dotted keys of the config that was named; none where no config was named.
  """
  if flag.startswith('config.'):
    if mode in _OTHER_FLAGS:
      return _of_checkpoint(flag.removeprefix('config.'), value or 'VALUE', mode)
    return '' if known else 'name the config before it, with --config=FILE'
  name = flag.replace('-', '_')
  if advice := {**_ADVICE[''], **_ADVICE.get(mode, {})}.get(name):
    return advice
  same_name = [key for key in near_keys(name, known) if key.rpartition('.')[2] == name]
  keys = [KEYS[name]] if name in KEYS else same_name
  if not keys:
    return ''
  value = value or 'VALUE'
  if mode in _OTHER_FLAGS:
    return _of_checkpoint(keys[0], value, mode)
  return f'did you mean {" or ".join(f"--config.{key}={value}" for key in keys[:_MOST])}?'


def _of_checkpoint(key: str, value: str, mode: str) -> str:
  """What to use where a checkpoint brings its own config."""
  section, _, name = key.partition('.')
  if section == 'decode':
    return f'did you mean --decode={name}={value}?'
  if other := _OTHER_FLAGS[mode].get(key):
    return f'did you mean {other}={value}?'
  return f'config.{key} is set when training; the checkpoint has its own config'
