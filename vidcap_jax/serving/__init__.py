"""Captions over HTTP: ``vidcap serve``, with a page in a browser and an API.

``server`` starts and stops, ``app`` has the routes. A request passes through ``uploads`` (its parts
in files), ``decoding_workers`` (video files to features, in processes that may die), ``batching``
(a queue, and batches of a fixed size) and ``programs`` (what was compiled at the start).
"""
