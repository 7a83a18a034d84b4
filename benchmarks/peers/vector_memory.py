"""LlamaIndex: `VectorMemory` over its own in-memory vector store, one for each agent."""

from __future__ import annotations

from collections import defaultdict

from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import VectorMemory
from llama_index.core.schema import TextNode
from pydantic import PrivateAttr

from benchmarks.peers.protocol import BEST, Batch, Lookup, Vectors


class LlamaIndexMemory:
    """`VectorMemory.get` for the best ten messages.

    `VectorMemory.put` looks through the whole store for each message, which takes hours for 100,000. The nodes that it
    would make go into its ``vector_index`` in batches instead.
    """

    name = "LlamaIndex VectorMemory"

    def __init__(self, lookup: Lookup) -> None:
        self._embedding = _LookupEmbedding(lookup)
        self._memories: defaultdict[str, VectorMemory] = defaultdict(self._empty_memory)

    def _empty_memory(self) -> VectorMemory:
        return VectorMemory.from_defaults(embed_model=self._embedding, retriever_kwargs={"similarity_top_k": BEST})

    async def fill(self, batch: Batch) -> None:
        """Insert one node for each text."""
        self._memories[batch.agent].vector_index.insert_nodes([_node(text) for text in batch.texts])

    async def ready(self) -> None:
        """Nothing is left to do."""

    async def search(self, agent: str, text: str, vector: Vectors) -> int:  # noqa: ARG002 - the lookup has the vector
        """The messages of the ten nearest nodes."""
        return len(self._memories[agent].get(text))


def _node(text: str) -> TextNode:
    """What `VectorMemory.put` makes of a message of the user."""
    message = ChatMessage(role=MessageRole.USER, content=text).model_dump() | {"content": text}
    hidden = ["sub_dicts"]
    return TextNode(
        text=text,
        metadata={"sub_dicts": [message]},
        excluded_embed_metadata_keys=hidden,
        excluded_llm_metadata_keys=hidden,
    )


class _LookupEmbedding(BaseEmbedding):
    """Answers from the lookup."""

    _lookup: Lookup = PrivateAttr()

    def __init__(self, lookup: Lookup) -> None:
        super().__init__()
        self._lookup = lookup

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._lookup.vector(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._lookup.vector(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._lookup.vector(text)
