"""Measures speed, size and recall of the engine through its public API; `python -m benchmarks --help` explains."""
