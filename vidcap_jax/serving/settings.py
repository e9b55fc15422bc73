"""What a server allows, and how much of it at a time."""

import dataclasses

MEGABYTE = 2**20


@dataclasses.dataclass(frozen=True)
class Limits:
  """What one request may be.

  Attributes:
    upload_bytes: of its body.
    files: clips and pictures of it.
    clip_seconds: of a clip.
    pixels: of a picture or of a clip's frames.
    captions: of a video.
    upload_seconds: until its body has arrived.
    decoding_seconds: until a worker has decoded a file and made its features.
    captioning_seconds: in the queue for captions, and being captioned.
  """

  upload_bytes: int = 64 * MEGABYTE
  files: int = 16
  clip_seconds: float = 600.0
  pixels: int = 40_000_000
  captions: int = 5
  upload_seconds: float = 60.0
  decoding_seconds: float = 60.0
  captioning_seconds: float = 60.0


@dataclasses.dataclass(frozen=True)
class Capacity:
  """How much a server does at a time.

  Attributes:
    requests: that are worked on or wait; more are answered with 429.
    workers: processes that decode files.
    worker_bytes: of memory that a worker may add to what it holds once its networks are loaded.
    batch_sizes: of videos that are captioned together, ascending; smaller batches are padded.
  """

  requests: int = 64
  workers: int = 2
  worker_bytes: int = 2048 * MEGABYTE
  batch_sizes: tuple[int, ...] = (1, 8)
