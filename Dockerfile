# The command vidcap on CPUs: data sets, training, evaluation, captions, studies.
#   docker build -t vidcap .
#   docker run --rm -it --init -v "$PWD:/work" -u "$(id -u):$(id -g)" vidcap \
#     train --config=configs/quickstart.py:tiny --workdir=runs/first
# launch/docker/ has the images that launch.gke starts on CPUs, GPUs and TPUs.
FROM python:3.12-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir=/wheels .

FROM python:3.12-slim
# One version in all images.
ARG JAX_VERSION=0.10.2
COPY --from=build /wheels /wheels
RUN printf '%s\n' "jax==${JAX_VERSION}" \
    "$(echo /wheels/*.whl)[metrics,video,lmdb,report,serve,launch]" > /wheels/requirements.txt \
  && pip install --no-cache-dir --requirement=/wheels/requirements.txt \
  && rm -r /wheels

# Any user may run it: compiled programs are kept below HOME, results in the mounted folder.
ENV HOME=/home/vidcap
RUN mkdir --mode=1777 /home/vidcap /work
WORKDIR /work
USER 1000
# --init passes SIGTERM on, by which a run saves and ends with 143.
ENTRYPOINT ["vidcap"]
CMD ["--help"]
