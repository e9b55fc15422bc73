# NVIDIA GPUs: the wheels bring CUDA, the nodes the driver (580 or newer).
#   docker build -f launch/docker/gpu.Dockerfile -t vidcap_jax:gpu .
FROM python:3.12-slim

# The floor of setup.py; one version in all images.
ARG JAX_VERSION=0.10.2

WORKDIR /opt/vidcap_jax
COPY . .
RUN pip install --no-cache-dir "jax[cuda13]==${JAX_VERSION}" \
  && pip install --no-cache-dir -e '.[metrics,video]'

# SIGTERM, by which Kubernetes stops it, saves while it trains and ends with 143. A first process of a
# container hears it only then: `docker run --init` or shareProcessNamespace make it end at any time.
ENTRYPOINT ["python", "-m", "vidcap_jax.main"]
