"""LangChain's models as parts of a manager: embeddings, and chat models that extract facts or summarise."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.embeddings import Embeddings
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from actrone_langchain._messages import text_of
from actrone_memory import ChatFactExtractor, ChatSummariser, FunctionEmbedder, ValidationError

Told = TypeVar("Told")
Answer = TypeVar("Answer")

MODEL_FIELDS = ("model", "model_name", "model_id", "repo_id", "model_path", "deployment", "endpoint_name")
"""Where embeddings keep the name of their model."""

LONGEST_SHOWN = 128

PARALLEL_CALLS = 8
"""Of embeddings with async methods of their own: they wait for a server, and may be called from many threads."""


class LangChainEmbedder(FunctionEmbedder):
    """Embeds with LangChain's embeddings, any object of ``langchain_core.embeddings.Embeddings``.

    Queries go through ``embed_query``, all other texts through ``embed_documents``. Both are called on threads, so that
    no event loop waits; those of a class that leaves them out are awaited.

    Args:
        name: identity of the vector space; None: the class and the model that it names. Give one where the class names
            no model, or where a setting besides changes the vectors.
        dimensions: length of every vector; None: the model is asked once, when it is first needed.

    Raises:
        ValidationError: an argument is of the wrong type.
    """

    def __init__(self, embeddings: Embeddings, *, name: str | None = None, dimensions: int | None = None) -> None:
        if not isinstance(embeddings, Embeddings):
            raise ValidationError(
                "embeddings", f"must be Embeddings of LangChain, such as OpenAIEmbeddings(), not {_kind(embeddings)}"
            )
        has_async = type(embeddings).aembed_documents is not Embeddings.aembed_documents
        super().__init__(
            _plain_or_awaited(embeddings.embed_documents, embeddings.aembed_documents),
            _plain_or_awaited(embeddings.embed_query, embeddings.aembed_query),
            name=f"langchain:{_name(embeddings)}" if name is None else name,
            dimensions=dimensions,
            parallel_calls=PARALLEL_CALLS if has_async else 1,
        )


class LangChainFactExtractor(ChatFactExtractor):
    """Extracts facts with a chat model of LangChain, or with a runnable that leads to one, such as one with retries.

    Raises:
        ValidationError: it is neither.
    """

    def __init__(self, model: Runnable[LanguageModelInput, Any]) -> None:
        super().__init__(_asking(model))


class LangChainSummariser(ChatSummariser):
    """Summarises with a chat model of LangChain, or with a runnable that leads to one, such as one with retries.

    Raises:
        ValidationError: it is neither.
    """

    def __init__(self, model: Runnable[LanguageModelInput, Any]) -> None:
        super().__init__(_asking(model))


def _asking(model: Runnable[LanguageModelInput, Any]) -> Callable[[str, str], str | Awaitable[str]]:
    if not isinstance(model, Runnable):
        raise ValidationError("model", f"must be a chat model of LangChain, such as ChatOpenAI(), not {_kind(model)}")

    async def awaited(messages: list[BaseMessage]) -> Any:
        return _said(await model.ainvoke(messages))

    ask = _plain_or_awaited(lambda messages: _said(model.invoke(messages)), awaited)
    return lambda instructions, conversation: ask([SystemMessage(instructions), HumanMessage(conversation)])


def _said(answer: Any) -> Any:
    """The text of a message; what a plain language model answers is text."""
    return text_of(answer) if isinstance(answer, BaseMessage) else answer


def _plain_or_awaited(
    plain: Callable[[Told], Answer], awaited: Callable[[Told], Awaitable[Answer]]
) -> Callable[[Told], Answer | Awaitable[Answer]]:
    """``plain``, or what is to be awaited where a class leaves it out.

    Plain first: an asyncio client belongs to one event loop, and the application uses this model on its own.
    """

    def ask(told: Told) -> Answer | Awaitable[Answer]:
        try:
            return plain(told)
        except NotImplementedError:
            return awaited(told)

    return ask


def _name(embeddings: Embeddings) -> str:
    """The class and its model; for one that wraps others, theirs too."""
    wrapped = [_name(value) for value in _fields(embeddings).values() if isinstance(value, Embeddings)]
    return ":".join([type(embeddings).__name__, *_models(embeddings), *wrapped])


def _models(embeddings: Embeddings) -> Iterator[str]:
    """The names of models that were set; with none set, the first that is there by default."""
    told = {
        field: value for field in MODEL_FIELDS if isinstance(value := _fields(embeddings).get(field), str) and value
    }
    chosen = getattr(embeddings, "model_fields_set", told)
    names = [value for field, value in told.items() if field in chosen] or [*told.values()][:1]
    return map(_shown, dict.fromkeys(names))


def _fields(embeddings: Embeddings) -> dict[str, Any]:
    return getattr(embeddings, "__dict__", {})


def _shown(model: str) -> str:
    """The name of a model; a folder's without where it lies, which is told apart by a hash."""
    path = Path(model)
    if len(model) <= LONGEST_SHOWN and not (path.is_absolute() or path.is_dir()):
        return model
    return f"{path.name[:LONGEST_SHOWN]}@{hashlib.sha256(str(path.absolute()).encode()).hexdigest()[:12]}"


def _kind(value: object) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__
