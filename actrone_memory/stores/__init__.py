"""Stores, one file or folder each. A store that needs an extra imports it there and nowhere else."""
