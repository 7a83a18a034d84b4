"""LangChain on actrone-memory. The adapters are not part of this version; `actrone_memory` works beside LangChain."""
