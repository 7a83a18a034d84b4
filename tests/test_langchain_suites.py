"""LangChain's own tests, on ours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

pytest.importorskip("langchain_tests.integration_tests", reason="langchain-tests is for newer versions")

from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from actrone_langchain import ActroneRetriever
from actrone_memory import MemoryManager


class TestSuiteOfLangChain(RetrieversIntegrationTests):
    """Its tests of a retriever."""

    memory = asyncio.run(MemoryManager.create())
    for _tool in ("vitest", "pytest", "cargo test", "go test", "junit"):
        asyncio.run(memory.inject_memory("repo", f"The unit tests of this part run with {_tool}."))

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return ActroneRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"memory": self.memory, "agent_id": "repo"}

    @property
    def retriever_query_example(self) -> str:
        return "how do the unit tests run?"
