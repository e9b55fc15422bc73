"""What all configs share: every key there is, with its default and what it does."""

from ml_collections import ConfigDict

from vidcap_jax.variants import each_variant, read_variant

__all__ = [
  'base',
  'each_variant',
  'read_variant',
  'reinforce',
  'run_local',
  'self_critical',
  'temporal_spatial',
]


def base() -> ConfigDict:
  """The defaults; a config changes them and locks the result."""
  c = ConfigDict()
  c.source = ''  # what --config named, file and variant; filled in by the command
  c.seed = 0  # of parameters, order and dropout
  c.seeds = ()  # several: a run for each in WORKDIR/seed_N, then mean and spread

  # Of a stage: train | key_frames (saves those of train.init_from's model) | fuse (captions by
  # several stages, of which an embedding chooses).
  c.task = 'train'
  c.order = ('xe',)  # stages, by name, in the order they run
  # What each stage changes of the sections below, e.g. stages.spatial.model.variant = 'spatial'.
  c.stages = ConfigDict({'xe': {}})

  c.data = ConfigDict()
  c.data.dir = ''  # folder written by data_prep.build
  c.data.recipe = ConfigDict()  # without a dir: render clips, extract features, build a data set
  c.data.recipe.videos = 0  # how many clips; 0: no recipe, data.dir is needed
  # Stream name to extractor (vidcap_jax/features/extractors.py).
  c.data.recipe.streams = ConfigDict({'image': 'efficientnet_lite0'})
  c.data.recipe.show = 3  # test clips captioned from their video files at the end
  c.data.train_split = 'train'
  c.data.val_split = 'val'
  c.data.captions_per_video = 5  # S, captions of a video in one step: they share its encoding
  c.data.max_frames = 0  # longer videos are subsampled evenly; 0: the data set's longest
  c.data.max_words = 0  # longer captions are cut; 0: as the vocabulary was built
  # Batches hold captions of about one length and are cut to the least of these many tokens that
  # holds them (one compilation each); (): no grouping, all batches of full length.
  c.data.length_buckets = (9, 11, 13, 16)
  c.data.standardise = True  # features by the training split's mean and deviation per channel
  # Key frames from outside, for models that take them: 'stage:NAME' of a stage whose task was
  # key_frames, or such a stage's file; '': none.
  c.data.key_frames = ''
  c.data.threads = 2  # reading ahead
  c.data.workers = 0  # processes that read training batches where threads can't keep up; 0: none
  # The training split's features: none | host | device: read for each batch, or once and kept in
  # memory, or on the devices (vidcap_jax/data/cache.py).
  c.data.cache = 'none'

  c.model = ConfigDict({'name': 'temporal_spatial'})  # and the fields of that model's config

  c.train = ConfigDict()
  c.train.batch_size = 64  # B, videos of a step, over all devices
  c.train.epochs = 20.0
  c.train.init_from = (
    ''  # 'stage:NAME', or a workdir or checkpoint folder: start from its parameters
  )
  # A word2vec file (text or binary, .gz too) of initial word embeddings; '': random ones.
  c.train.word_vectors = ''
  c.train.dtype = 'float32'  # of the computation: float32 | bfloat16
  c.train.label_smoothing = 0.0
  c.train.scheduled_sampling = ConfigDict(
    {
      'name': 'off',  # off | linear | inverse_sigmoid
      'start_epoch': 5.0,  # linear: no own words before
      'every_epochs': 5.0,
      'increase': 0.05,
      'most': 0.25,
      'eta': 24.0,  # inverse_sigmoid
    }
  )
  c.train.max_skipped = 20  # steps skipped for a loss or gradient that isn't finite, then stop

  c.fuse = ConfigDict()  # of a stage with task fuse; all are 'stage:NAME' or a checkpoint
  c.fuse.embedding = ''  # which caption of a video is the nearest is what this one says
  c.fuse.runs = ()  # whose captions are the candidates
  c.fuse.candidates = 1  # of each run, the best of its beam

  c.objective = ConfigDict({'name': 'cross_entropy'})  # vidcap_jax/objectives/

  c.optimizer = ConfigDict()
  c.optimizer.name = 'adam'  # adam | adamw | rmsprop | sgd
  c.optimizer.learning_rate = 4e-4
  c.optimizer.b1 = 0.9
  c.optimizer.b2 = 0.999  # rmsprop: its decay
  c.optimizer.eps = 1e-8
  c.optimizer.momentum = 0.0  # rmsprop, sgd
  c.optimizer.weight_decay = 0.0  # adamw
  c.optimizer.clip_norm = 5.0  # global norm; 0: no clipping
  c.optimizer.schedule = ConfigDict(
    {
      'name': 'constant',  # constant | step | linear | cosine
      'warmup_epochs': 0.0,
      'warmup_start': 0.0,  # share of the rate that warm-up begins with
      'factor': 0.8,  # step: times this …
      'every_epochs': 1.0,  # … so often …
      'start_epoch': 3.0,  # … from here on
      'final': 0.0,  # linear, cosine: share of the rate left at the end
    }
  )

  c.runtime = ConfigDict()  # vidcap_jax/distributed/runtime.py
  # Of float32 products on accelerators: default | high | highest. On TPUs one, three or six passes
  # in bfloat16, on GPUs TensorFloat-32 for the first two; CPUs always compute in float32.
  c.runtime.matmul_precision = 'high'
  c.runtime.check_nans = False  # stop at the operation that makes the first NaN; much slower
  c.runtime.compilation_cache = ''  # folder where compiled programs are kept between runs; '': none

  c.decode = ConfigDict()
  c.decode.method = 'beam'  # beam | greedy | sample
  c.decode.beam = 5
  c.decode.n_best = 1  # captions of a video: the best of the beam, or samples
  c.decode.groups = 1  # diverse beam search: parts of the beam, extended one after another
  c.decode.diversity = 0.5  # log-probability a word loses each time an earlier group says it
  c.decode.force = ()  # up to 4 words that every caption holds, e.g. ('piano', 'cat'); beam only
  c.decode.length_penalty = 0.0  # score = log-probability / length ** this
  c.decode.min_length = 1  # words
  c.decode.no_repeat_ngram = 0  # no n-gram of this size twice; 0: off
  c.decode.temperature = 1.0  # sample
  c.decode.top_k = 0
  c.decode.top_p = 1.0

  c.eval = ConfigDict()
  c.eval.batch_size = 64
  c.eval.every_epochs = 1.0  # validation during training
  c.eval.metrics = ('BLEU', 'ROUGE_L', 'CIDEr')  # during training, of models that make captions
  # Chooses the best checkpoint. Of an embedding: R@1, R@5, R@10, rsum or one direction's, e.g.
  # text_to_video_R@1.
  c.eval.metric = 'CIDEr'
  c.eval.patience = 0  # stop after so many validations without a better score; 0: never
  c.eval.splits = ('val', 'test')  # scored at the end, as far as the data set has them
  # 'stage:NAME', or a workdir or checkpoint folder: captions those videos which lack all features
  # of the model.
  c.eval.fallback = ''

  c.checkpoint = ConfigDict()
  c.checkpoint.keep = 1  # latest checkpoints kept beside the best, at least 1
  c.checkpoint.every_steps = 0  # between validations too; 0: only then

  c.log = ConfigDict()
  c.log.every_steps = 20  # 0: only the last one
  c.log.tensorboard = True
  c.log.profile = ''  # as --profile: FIRST:LAST, the steps of which a trace is written

  c.mesh = ConfigDict(  # none of it changes results: a run may go on with other values
    {
      'data': -1,  # devices that batches are spread over; -1: what is left
      'model': 1,
      # replicated | vocabulary (what runs over words is spread over `model`) | full (everything
      # that divides is spread over `data`).
      'params': 'replicated',
    }
  )
  return c


def temporal_spatial(c: ConfigDict, variant: str = 'temporal') -> ConfigDict:
  """Adds the VATEX model's settings (see vidcap_jax/models/temporal_spatial.py)."""
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
  """An objective section: reinforcement, see vidcap_jax/objectives/self_critical.py."""
  return ConfigDict(
    {
      'name': 'self_critical',
      # Name -> weight (vidcap_jax/rewards): CIDEr-D counts to 10, all others to 1.
      'rewards': {'cider': 1.0, 'bleu4': 0.5, 'rouge_l': 0.0, 'meteor': 0.0},
      'count_eos': True,  # whether the end of a caption is one of its words
      'samples': 1,  # K captions of each video
      'baseline': 'greedy',  # greedy | others (mean of a video's other samples) | none
      'gradient': 'tape',  # tape: of the sampling itself; replay: samples are read again …
      'micro_batches': 1,  # … in so many parts of the batch, one after another: less memory
      'cross_entropy': 0.0,  # weight of the cross entropy of the batch's captions beside it
      'from_scratch': False,  # True: may begin without a trained model
      # The stage ends with an explanation after so many steps one after the other in which samples
      # earn less than this, or fewer of them end.
      'collapse': {'reward': 0.01, 'ended': 0.05, 'steps': 200},
    }
  )


def reinforce(source: str, *, epochs: float, learning_rate: float, **objective) -> ConfigDict:
  """A stage of reinforcement from the best checkpoint of another.

  Args:
    source: the name of that stage.
    epochs, learning_rate: of this one; the rate is constant, a tenth or so of that before.
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
        'label_smoothing': 0.0,
        'scheduled_sampling': {'name': 'off'},
      },
      'data': {'length_buckets': ()},
      'optimizer': {'learning_rate': learning_rate, 'schedule': {'name': 'constant'}},
    }
  )


def run_local(c: ConfigDict, streams: dict[str, str]) -> ConfigDict:
  """Makes a config small: rendered clips, random-weight streams, a rehearsal of the whole run.

  Args:
    streams: stream name -> extractor (vidcap_jax/features/extractors.py) of the kinds that the
      model needs.
  """
  c.data.dir = ''
  c.data.recipe.videos = 60
  c.data.recipe.streams = ConfigDict(streams)
  c.data.length_buckets = ()  # one compilation: it takes longer than these few steps
  c.train.batch_size = 16
  c.train.epochs = 30.0
  c.optimizer.learning_rate = 4e-3
  c.optimizer.schedule.name = 'cosine'  # a rate that falls by epochs would be gone at once
  c.model.dropout = 0.2
  c.eval.every_epochs = 10.0
  for size in ('hidden', 'embed', 'project', 'attention'):
    if size in c.model:
      c.model[size] = 64
  return c
