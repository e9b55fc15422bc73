"""The networks that features come from: a module each, and one for each family known by name.

``efficientnet``, ``c3d`` and ``vggish`` (with ``log_mel``) are written in JAX; ``timm_images``,
``torchvision_regions``, ``torchvision_videos`` and ``transformers_models`` run PyTorch's (the extra
``torch``). ``vidcap_jax.features.networks`` and ``vidcap_jax.features.extractors`` list what can be
asked for.
"""
