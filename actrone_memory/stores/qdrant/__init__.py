"""The cold tier in Qdrant: one collection for all agents, shared by many processes (extra ``qdrant``)."""

from actrone_memory.stores.qdrant.store import QdrantStore

__all__ = ["QdrantStore"]
