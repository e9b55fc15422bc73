"""The bodies of the public Python API, which ``vidcap_jax`` imports when a name is first used."""
