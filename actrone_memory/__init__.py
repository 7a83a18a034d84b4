"""Memory for AI agents: recent turns, long-term recall, and a token budget that holds."""

from actrone_memory._similarity import cosine_similarity
from actrone_memory._transfer import Imported
from actrone_memory.config import MemoryConfig
from actrone_memory.context import Dropped, RetrievedContext, TierUsage
from actrone_memory.embedders.functions import FunctionEmbedder
from actrone_memory.embedders.hashing import HashingEmbedder
from actrone_memory.embedders.onnx import OnnxEmbedder
from actrone_memory.embedders.openai import OpenAIEmbedder
from actrone_memory.embedders.sentence_transformers import LocalEmbedder
from actrone_memory.embedders.static import StaticEmbedder
from actrone_memory.errors import (
    ActroneMemoryError,
    ConfigurationError,
    EmbeddingError,
    MemoryNotFoundError,
    StoreConnectionError,
    TokenBudgetError,
    ValidationError,
)
from actrone_memory.extraction import ChatFactExtractor, OpenAIFactExtractor, parse_facts
from actrone_memory.manager import MemoryManager, create_memory_manager
from actrone_memory.models import MemoryEntry, SessionMetadata, ToolResult, Turn
from actrone_memory.protocols import (
    AgentListing,
    ArchiveLog,
    BatchWrites,
    Embedder,
    EmbedderBinding,
    EmbedderIdentity,
    EntryAccess,
    EntryTransfer,
    ExtractedFact,
    FactExtractor,
    L1Store,
    L2Store,
    MemoryListing,
    Page,
    PagedSearch,
    Reindexing,
    Reranker,
    SessionCopy,
    SessionListing,
    SessionTransfer,
    SessionTurns,
    Summariser,
    TurnBatches,
    VectorCache,
)
from actrone_memory.reranking import CrossEncoderReranker
from actrone_memory.stores.in_memory import InMemoryStore
from actrone_memory.stores.qdrant import QdrantStore
from actrone_memory.stores.redis import RedisStore
from actrone_memory.stores.sqlite import SQLiteStore
from actrone_memory.summarising import ChatSummariser, OpenAISummariser
from actrone_memory.sync import SyncMemoryManager

__version__ = "0.1.0"

__all__ = [
    "ActroneMemoryError",
    "AgentListing",
    "ArchiveLog",
    "BatchWrites",
    "ChatFactExtractor",
    "ChatSummariser",
    "ConfigurationError",
    "CrossEncoderReranker",
    "Dropped",
    "Embedder",
    "EmbedderBinding",
    "EmbedderIdentity",
    "EmbeddingError",
    "EntryAccess",
    "EntryTransfer",
    "ExtractedFact",
    "FactExtractor",
    "FunctionEmbedder",
    "HashingEmbedder",
    "Imported",
    "InMemoryStore",
    "L1Store",
    "L2Store",
    "LocalEmbedder",
    "MemoryConfig",
    "MemoryEntry",
    "MemoryListing",
    "MemoryManager",
    "MemoryNotFoundError",
    "OnnxEmbedder",
    "OpenAIEmbedder",
    "OpenAIFactExtractor",
    "OpenAISummariser",
    "Page",
    "PagedSearch",
    "QdrantStore",
    "RedisStore",
    "Reindexing",
    "Reranker",
    "RetrievedContext",
    "SQLiteStore",
    "SessionCopy",
    "SessionListing",
    "SessionMetadata",
    "SessionTransfer",
    "SessionTurns",
    "StaticEmbedder",
    "StoreConnectionError",
    "Summariser",
    "SyncMemoryManager",
    "TierUsage",
    "TokenBudgetError",
    "ToolResult",
    "Turn",
    "TurnBatches",
    "ValidationError",
    "VectorCache",
    "cosine_similarity",
    "create_memory_manager",
    "parse_facts",
]
