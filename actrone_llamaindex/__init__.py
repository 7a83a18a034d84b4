"""LlamaIndex on actrone-memory: a memory for its agents and chat engines, a block for its own Memory, its models."""

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise ImportError("actrone_llamaindex needs llama-index-core: pip install 'actrone-memory[llamaindex]'") from error

from actrone_llamaindex.block import ActroneMemoryBlock
from actrone_llamaindex.memory import ActroneMemory
from actrone_llamaindex.models import LlamaIndexEmbedder, LlamaIndexFactExtractor, LlamaIndexSummariser

__all__ = [
    "ActroneMemory",
    "ActroneMemoryBlock",
    "LlamaIndexEmbedder",
    "LlamaIndexFactExtractor",
    "LlamaIndexSummariser",
]
