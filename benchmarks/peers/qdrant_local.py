"""qdrant-client in local mode: everything in this process, one collection for each agent."""

from __future__ import annotations

import warnings

from qdrant_client import QdrantClient, models

from benchmarks.peers.protocol import BEST, Batch, Vectors


class QdrantLocal:
    """`QdrantClient.query_points` for the best ten points of the agent's collection, payloads included.

    One collection for all agents and a filter would be slower: local mode looks at every point for the filter.
    """

    name = "qdrant-client local"

    def __init__(self, dimensions: int) -> None:
        self._client = QdrantClient(":memory:")
        self._collection = models.VectorParams(size=dimensions, distance=models.Distance.COSINE)

    async def fill(self, batch: Batch) -> None:
        """Upsert the batch as points whose payload is the text."""
        if not self._client.collection_exists(batch.agent):
            self._client.create_collection(batch.agent, vectors_config=self._collection)
        payloads = [{"text": text} for text in batch.texts]
        points = models.Batch(ids=list(batch.ids), vectors=batch.vectors.tolist(), payloads=payloads)
        with warnings.catch_warnings():
            # From 20,000 points on it recommends a server, which is not what is compared here.
            warnings.simplefilter("ignore", UserWarning)
            self._client.upsert(batch.agent, points=points)

    async def ready(self) -> None:
        """Nothing is left to do."""

    async def search(self, agent: str, text: str, vector: Vectors) -> int:  # noqa: ARG002 - it compares vectors
        """The ten nearest points."""
        return len(self._client.query_points(agent, query=vector, limit=BEST).points)
