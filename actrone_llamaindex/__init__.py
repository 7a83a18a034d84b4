"""LlamaIndex on actrone-memory: a memory for its agents and chat engines, and a block for its own Memory."""

try:
    import llama_index.core  # noqa: F401
except ImportError as error:
    raise ImportError("actrone_llamaindex needs llama-index-core: pip install 'actrone-memory[llamaindex]'") from error

from actrone_llamaindex.block import ActroneMemoryBlock
from actrone_llamaindex.memory import ActroneMemory

__all__ = ["ActroneMemory", "ActroneMemoryBlock"]
