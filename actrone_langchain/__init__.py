"""LangChain on actrone-memory: chat history, retriever, agent middleware, and LangChain's models for a manager.

`ActroneMemoryMiddleware` is imported by its name; ``import *`` leaves it out, because it needs `langchain` itself.
"""

from importlib.util import find_spec as _find_spec
from typing import TYPE_CHECKING, Any

if _find_spec("langchain_core") is None:
    raise ImportError("actrone_langchain needs langchain-core: pip install 'actrone-memory[langchain]'")

from actrone_langchain.history import (
    ActroneChatMessageHistory,
    SessionHistory,
    UserSessionHistory,
    session_history,
    user_agent_id,
    user_session_history,
)
from actrone_langchain.models import LangChainEmbedder, LangChainFactExtractor, LangChainSummariser
from actrone_langchain.retriever import ActroneRetriever, render_documents

if TYPE_CHECKING:
    from actrone_langchain.middleware import ActroneMemoryMiddleware as ActroneMemoryMiddleware

__all__ = [
    "ActroneChatMessageHistory",
    "ActroneRetriever",
    "LangChainEmbedder",
    "LangChainFactExtractor",
    "LangChainSummariser",
    "SessionHistory",
    "UserSessionHistory",
    "render_documents",
    "session_history",
    "user_agent_id",
    "user_session_history",
]


def __getattr__(name: str) -> Any:
    # Loaded when it is asked for: agents need `langchain` itself, histories and retrievers do not.
    if name == "ActroneMemoryMiddleware":
        from actrone_langchain.middleware import ActroneMemoryMiddleware

        return ActroneMemoryMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
