"""What `doctor` looks at: settings, store, embedder and versions, one after the other."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from actrone_memory import ActroneMemoryError, L1Store, L2Store, MemoryConfig, MemoryManager, SQLiteStore
from actrone_memory._factory import build_embedder, build_reranker, build_stores
from actrone_memory.protocols import AgentListing

EXTRAS = {
    "onnx": ["onnxruntime", "tokenizers"],
    "local": ["sentence-transformers"],
    "langchain": ["langchain-core"],
    "llamaindex": ["llama-index-core"],
    "openai": ["openai"],
    "redis": ["redis"],
    "qdrant": ["qdrant-client"],
    "tiktoken": ["tiktoken"],
}
"""What each extra brings."""


class Finding(NamedTuple):
    """One thing that was looked at, and how it is; when it is not ok, the text says what to do."""

    ok: bool
    subject: str
    text: str


def examine(config: Callable[[], MemoryConfig]) -> list[Finding]:
    """Look at everything that can be looked at; what fails ends neither the others nor the examination."""
    findings = [_versions(), _extras()]
    try:
        settings = config()
    except ActroneMemoryError as error:
        return [*findings, Finding(False, "settings", error.message)]
    changed = sorted(name for name in settings.model_fields_set if name in MemoryConfig.model_fields)
    findings.append(Finding(True, "settings", f"set: {', '.join(changed)}" if changed else "the defaults"))
    return [*findings, *asyncio.run(_stores_and_embedder(settings))]


def _versions() -> Finding:
    versions = [f"Python {platform.python_version()}", f"SQLite {sqlite3.sqlite_version}"]
    versions += [f"{name} {importlib.metadata.version(name)}" for name in ("actrone-memory", "numpy", "pydantic")]
    return Finding(True, "versions", ", ".join(versions))


def _extras() -> Finding:
    here = [extra for extra, packages in EXTRAS.items() if all(map(_is_installed, packages))]
    return Finding(True, "extras", f"installed: {', '.join(here)}" if here else "none but this command line's")


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


async def _stores_and_embedder(config: MemoryConfig) -> list[Finding]:
    try:
        l1, l2 = build_stores(config, None, None)
    except ActroneMemoryError as error:
        return [Finding(False, "store", error.message)]
    try:
        store = await _store(l1, l2)
        embedder = await _embedder(config, l2 if store.ok else None)
        vectors = [await _vectors(config, l1, l2)] if store.ok and embedder.ok else []
        reranker = [await _reranker(config)] if config.rerank_enabled else []
        return [store, embedder, *reranker, *(finding for finding in vectors if not finding.ok)]
    finally:
        await l2.close()
        await l1.close()


async def _store(l1: L1Store, l2: L2Store) -> Finding:
    """The store, when it opens."""
    try:
        tiers = [tier for tier in (l1, l2) if isinstance(tier, AgentListing)]
        scopes = {scope for tier in tiers for scope in await tier.list_agents()}
    except ActroneMemoryError as error:
        return Finding(False, "store", error.message)
    where = f"{l2.path}, " if isinstance(l2, SQLiteStore) else ""
    return Finding(True, "store", f"{type(l2).__name__}, {where}scopes: {len(scopes)}")


async def _embedder(config: MemoryConfig, l2: L2Store | None) -> Finding:
    """The embedder that the settings name, when it embeds."""
    try:
        embedder = await build_embedder(config, l2)
        await embedder.embed("A sentence to try it with.")
    except ActroneMemoryError as error:
        return Finding(False, "embedder", error.message)
    return Finding(True, "embedder", f"{embedder.name}, {embedder.dimensions} dimensions")


async def _reranker(config: MemoryConfig) -> Finding:
    """The reranker that the settings ask for, when it can be had."""
    try:
        found = await build_reranker(config)
    except ActroneMemoryError as error:
        return Finding(False, "reranker", error.message)
    if isinstance(found, ActroneMemoryError):
        return Finding(False, "reranker", f"{found.message} Until then results keep the order of the search.")
    return Finding(True, "reranker", f"{config.rerank_model}, for the first {config.rerank_top_k} results")


async def _vectors(config: MemoryConfig, l1: L1Store, l2: L2Store) -> Finding:
    """Whether the embedder can be compared with what filled the store."""
    try:
        unranked = config.model_copy(update={"rerank_enabled": False})  # the reranker has a finding of its own
        await (await MemoryManager.create(unranked, l1=l1, l2=l2)).close()
    except ActroneMemoryError as error:
        return Finding(False, "vectors", error.message)
    return Finding(True, "vectors", "")
