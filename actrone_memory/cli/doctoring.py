"""What `doctor` looks at: settings, store, embedder and versions, one after the other."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import sqlite3
from collections.abc import Callable
from typing import NamedTuple

from actrone_memory import ActroneMemoryError, Embedder, L2Store, MemoryConfig, MemoryManager, SQLiteStore
from actrone_memory._factory import build_embedder, build_stores

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
    findings: list[Finding] = []
    embedder = await _embedder(config, l2, findings)
    if embedder is None:
        await l2.close()
        await l1.close()
        return findings
    try:
        memory = await MemoryManager.create(config, l1=l1, l2=l2, embedder=embedder)
        agents = await memory.list_agents()
        where = f"{l2.path}, " if isinstance(l2, SQLiteStore) else ""
        findings.append(Finding(True, "store", f"{type(l2).__name__}, {where}scopes: {len(agents)}"))
        await memory.close()
    except ActroneMemoryError as error:
        findings.append(Finding(False, "store", error.message))
    return findings


async def _embedder(config: MemoryConfig, l2: L2Store, findings: list[Finding]) -> Embedder | None:
    """The embedder that the settings name, when it embeds."""
    try:
        embedder = await build_embedder(config, l2)
        await embedder.embed("A sentence to try it with.")
    except ActroneMemoryError as error:
        findings.append(Finding(False, "embedder", error.message))
        return None
    findings.append(Finding(True, "embedder", f"{embedder.name}, {embedder.dimensions} dimensions"))
    return embedder
