"""The networks that make features: a module for each, or for each family of networks.

``efficientnet``, ``c3d`` and ``vggish`` (with ``log_mel``) are written in JAX; ``timm_images``,
``torchvision_regions``, ``torchvision_videos`` and ``transformers_models`` run networks in PyTorch
(the extra ``torch``). ``vidcap_jax.features.networks`` and ``vidcap_jax.features.extractors`` list
them.
"""
