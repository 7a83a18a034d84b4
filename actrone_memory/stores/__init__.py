"""Stores, one file each. A store that needs an extra imports it in its own file and nowhere else."""
