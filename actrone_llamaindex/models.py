"""LlamaIndex's models as parts of a manager: embeddings, and language models that extract facts or summarise."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.base import BaseLLM
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole

from actrone_llamaindex._messages import text_of
from actrone_memory import ChatFactExtractor, ChatSummariser, FunctionEmbedder, ValidationError

Told = TypeVar("Told")
Answer = TypeVar("Answer")

NO_MODEL = str(BaseEmbedding.model_fields["model_name"].default)
"""What embeddings call their model that do not name it."""

LONGEST_SHOWN = 128

PARALLEL_CALLS = 8
"""Of embeddings that await batches in their own way: they wait for a server, and may be called from many threads."""


class LlamaIndexEmbedder(FunctionEmbedder):
    """Embeds with an embedding model of LlamaIndex, any object of ``BaseEmbedding``.

    Queries go through ``get_query_embedding``, all other texts through ``get_text_embedding_batch``. Both are called on
    threads, so that no event loop waits; those of a class that leaves them out are awaited.

    Args:
        name: identity of the vector space; None: the class and its ``model_name``. Give one where the class names no
            model, or where a setting besides changes the vectors.
        dimensions: length of every vector; None: the model is asked once, when it is first needed.

    Raises:
        ValidationError: an argument is of the wrong type.
    """

    def __init__(self, embed_model: BaseEmbedding, *, name: str | None = None, dimensions: int | None = None) -> None:
        if not isinstance(embed_model, BaseEmbedding):
            raise ValidationError(
                "embed_model",
                f"must be an embedding model of LlamaIndex, such as OpenAIEmbedding(), not {_kind(embed_model)}",
            )
        has_async = type(embed_model)._aget_text_embeddings is not BaseEmbedding._aget_text_embeddings
        super().__init__(
            _plain_or_awaited(embed_model.get_text_embedding_batch, embed_model.aget_text_embedding_batch),
            _plain_or_awaited(embed_model.get_query_embedding, embed_model.aget_query_embedding),
            name=f"llamaindex:{_name(embed_model)}" if name is None else name,
            dimensions=dimensions,
            parallel_calls=PARALLEL_CALLS if has_async else 1,
        )


class LlamaIndexFactExtractor(ChatFactExtractor):
    """Extracts facts with a language model of LlamaIndex.

    Raises:
        ValidationError: ``llm`` is none.
    """

    def __init__(self, llm: BaseLLM) -> None:
        super().__init__(_asking(llm))


class LlamaIndexSummariser(ChatSummariser):
    """Summarises with a language model of LlamaIndex.

    Raises:
        ValidationError: ``llm`` is none.
    """

    def __init__(self, llm: BaseLLM) -> None:
        super().__init__(_asking(llm))


def _asking(llm: BaseLLM) -> Callable[[str, str], str | Awaitable[str]]:
    if not isinstance(llm, BaseLLM):
        raise ValidationError("llm", f"must be a language model of LlamaIndex, such as OpenAI(), not {_kind(llm)}")

    async def awaited(messages: list[ChatMessage]) -> str:
        return _said(await llm.achat(messages))

    ask = _plain_or_awaited(lambda messages: _said(llm.chat(messages)), awaited)
    return lambda instructions, conversation: ask(
        [
            ChatMessage(role=MessageRole.SYSTEM, content=instructions),
            ChatMessage(role=MessageRole.USER, content=conversation),
        ]
    )


def _said(response: ChatResponse) -> str:
    return text_of(response.message)


def _plain_or_awaited(
    plain: Callable[[Told], Answer], awaited: Callable[[Told], Awaitable[Answer]]
) -> Callable[[Told], Answer | Awaitable[Answer]]:
    """``plain``, or what is to be awaited where a class leaves it out.

    Plain first: an asyncio client belongs to one event loop, and the application uses this model on its own; besides,
    the async methods of many embeddings only call the plain ones.
    """

    def ask(told: Told) -> Answer | Awaitable[Answer]:
        try:
            return plain(told)
        except NotImplementedError:
            return awaited(told)

    return ask


def _name(embed_model: BaseEmbedding) -> str:
    """The class and its model; a folder's name without where it lies, which is told apart by a hash."""
    kind, model, path = type(embed_model).__name__, embed_model.model_name, Path(embed_model.model_name)
    if model == NO_MODEL:
        return kind
    if len(model) > LONGEST_SHOWN or path.is_absolute() or path.is_dir():
        model = f"{path.name[:LONGEST_SHOWN]}@{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]}"
    return f"{kind}:{model}"


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
