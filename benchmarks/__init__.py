"""Measures speed, size and recall of the engine through its public API; `python -m benchmarks --help` explains."""

import os

# Before anything imports numpy. On a machine that others use too, a product of two threads waits whole milliseconds for
# the second core: one would measure the scheduler. It is the same for all who are measured, in child processes too.
for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
