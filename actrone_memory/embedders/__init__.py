"""Embedders, one file each. An embedder that needs an extra imports it in its own file and nowhere else."""
