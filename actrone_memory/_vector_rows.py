"""Vectors of one length in one block of memory, multiplied as one matrix. Knows nothing of what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

GROWTH = 1.5
"""By how much the block grows when it is full; the system gives a page only when a row is written there."""

SMALLEST_GROWTH = 16


class VectorRows:
    """Rows of 32-bit floats that can be appended; the first vector that is not empty tells the dimensions.

    The block is numpy's own, for which the system gives large pages: a product over 100,000 rows of 128 numbers is a
    fifth faster there than over an `array`.
    """

    def __init__(self) -> None:
        self._block = np.zeros((0, 0), np.float32)
        self._count = 0

    @property
    def dimensions(self) -> int:
        """Length of every row; 0 until there is one."""
        return int(self._block.shape[1])

    @property
    def rows(self) -> NDArray[np.float32]:
        """A view of all rows; what is appended later is not in it."""
        return self._block[: self._count]

    def append(self, vector: NDArray[np.float32]) -> None:
        """Add a row; an empty vector counts as zero."""
        if self._count == len(self._block) or self.dimensions < vector.size:
            self._grow(max(self.dimensions, vector.size))
        self._block[self._count] = vector if vector.size else 0.0
        self._count += 1

    def _grow(self, dimensions: int) -> None:
        grown = np.empty((int(self._count * GROWTH) + SMALLEST_GROWTH, dimensions), np.float32)
        # Rows from before the first vector have no numbers yet, and count as zero.
        grown[: self._count] = self.rows if self.dimensions else 0.0
        self._block = grown
