"""Train the table: the sum of a text's piece vectors shall point where the teacher's sentence vector points.

Started from the teacher's vectors of single pieces in the space of the corpus' largest eigenvectors, weighted by
smooth inverse frequency (Arora et al. 2017); trained with Adam on 1 - cosine; quantised to 4 bits a number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from actrone_memory._wordpieces import CODE_LIMIT, StaticTable, WordPieces, words

Floats = NDArray[np.float32]

LONGEST_TEXT = 64
"""Pieces of a text that are trained on; the teacher reads no more either."""

SIF = 1e-4
EPOCHS, BATCH, LEARNING_RATE, SMALLEST_RATE = 4, 512, 5e-3, 1e-5
SCALES = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Shares of a row's largest number that are tried as its largest code."""


def latin_pieces(vocabulary: Sequence[str]) -> list[int]:
    """Positions of the pieces that are words or parts of words in Latin letters, digits included."""
    return [number for number, piece in enumerate(vocabulary) if _is_latin(piece.removeprefix("##"))]


def _is_latin(piece: str) -> bool:
    return piece.isalnum() and all(ord(character) < 0x250 for character in piece)


def most_frequent(vocabulary: list[str], texts: Sequence[str], count: int) -> list[int]:
    """Positions of ``count`` pieces: all single characters, then those that the texts use most."""
    tokenizer, uses = WordPieces(vocabulary), Counter[int]()
    for text in texts:
        uses.update(tokenizer.numbers(words(text)))
    order = sorted(range(len(vocabulary)), key=lambda n: (len(vocabulary[n].removeprefix("##")) > 1, -uses[n], n))
    return sorted(order[:count])


def principal_axes(vectors: Floats, dimensions: int) -> Floats:
    """The eigenvectors of the largest eigenvalues of the uncentred second moment, as columns."""
    moment = vectors.astype(np.float64).T @ vectors.astype(np.float64)
    axes = np.linalg.eigh(moment)[1][:, ::-1][:, :dimensions]
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(dimensions)])
    return np.ascontiguousarray(axes * signs).astype(np.float32)


def initial_vectors(pieces: Floats, axes: Floats) -> Floats:
    """Centred unit vectors of all pieces on the axes, frequent ones shortened: the vocabulary is in Zipf's order."""
    frequency = 1 / (np.arange(len(pieces)) + 3.7)
    frequency /= frequency.sum()
    weighted: Floats = ((pieces - pieces.mean(axis=0)) @ axes * (SIF / (SIF + frequency))[:, None]).astype(np.float32)
    return weighted


def train(start: Floats, texts: Sequence[Sequence[int]], targets: Floats, seed: int = 0) -> Floats:
    """The table after `EPOCHS` passes over the texts, given as piece numbers, with their target vectors."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode=True)
    table = torch.nn.EmbeddingBag.from_pretrained(torch.tensor(start), freeze=False, mode="sum", sparse=True)
    optimizer = torch.optim.SparseAdam(list(table.parameters()), lr=LEARNING_RATE)
    usable = np.array([i for i, pieces in enumerate(texts) if len(pieces)])
    order, goal = np.random.default_rng(seed), torch.nn.functional.normalize(torch.tensor(targets), dim=1)
    steps, step = EPOCHS * (len(usable) // BATCH), 0
    for epoch in range(EPOCHS):
        shuffled, losses = order.permutation(usable), []
        for first in range(0, len(shuffled) - BATCH + 1, BATCH):
            batch = shuffled[first : first + BATCH]
            optimizer.param_groups[0]["lr"] = LEARNING_RATE * (1 - step / steps) + SMALLEST_RATE
            losses.append(_step(table, optimizer, [texts[i] for i in batch], goal[batch]))
            step += 1
        print(f"  epoch {epoch + 1}: mean 1 - cosine {np.mean(losses):.4f}", flush=True)
    trained: Floats = table.weight.detach().numpy()
    return trained


def _step(
    table: torch.nn.EmbeddingBag, optimizer: torch.optim.Optimizer, texts: Sequence[Sequence[int]], goal: torch.Tensor
) -> float:
    offsets = np.cumsum([0, *map(len, texts[:-1])])
    flat = np.concatenate([np.asarray(text, np.int64) for text in texts])
    sums = torch.nn.functional.normalize(table(torch.from_numpy(flat), torch.from_numpy(offsets)), dim=1)
    loss = (1 - (sums * goal).sum(dim=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.item())


def quantise(vectors: Floats) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """4-bit codes and a scale for each row, the scale of `SCALES` with the least squared error."""
    largest = np.maximum(np.abs(vectors).max(axis=1), 1e-9)
    tried = [_codes(vectors, largest * share / CODE_LIMIT) for share in SCALES]
    best = np.argmin([error for _, _, error in tried], axis=0)
    rows = np.arange(len(vectors))
    codes = np.stack([codes for codes, _, _ in tried])[best, rows]
    scales = np.stack([scales for _, scales, _ in tried])[best, rows]
    return codes.astype(np.int8), scales


def _codes(vectors: Floats, scales: Floats) -> tuple[Floats, NDArray[np.float16], Floats]:
    steps = np.maximum(scales.astype(np.float16), np.float16(6e-8))
    wide = steps.astype(np.float32)[:, None]
    codes = np.clip(np.rint(vectors / wide), -CODE_LIMIT, CODE_LIMIT)
    return codes, steps, ((codes * wide - vectors) ** 2).sum(axis=1)


def background(table: StaticTable, texts: Sequence[str]) -> tuple[float, float]:
    """Mean and deviation of the cosine between each text of the first half and each of the second."""
    vectors = _vectors(table, texts)
    half = len(vectors) // 2
    cosines = vectors[:half] @ vectors[half:].T
    return float(cosines.mean(dtype=np.float64)), float(cosines.std(dtype=np.float64))


def _vectors(table: StaticTable, texts: Sequence[str]) -> Floats:
    return np.stack([table.vector(text) for text in texts])


def rank_agreement(table: StaticTable, texts: Sequence[str], teacher: Floats, pairs: int = 20_000) -> float:
    """Spearman's rank correlation of the table's and the teacher's cosines over random pairs of texts."""
    left, right = np.random.default_rng(0).integers(0, len(texts), (2, pairs))
    vectors = _vectors(table, texts)
    ours, theirs = ((v[left] * v[right]).sum(axis=1).argsort().argsort() for v in (vectors, teacher))
    return float(np.corrcoef(ours, theirs)[0, 1])
