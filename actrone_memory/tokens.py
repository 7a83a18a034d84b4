"""How much of a token budget a text costs."""

from __future__ import annotations

from collections.abc import Callable

from actrone_memory.errors import ConfigurationError

TokenCounter = Callable[[str], int]

CHARACTERS_PER_TOKEN = 4
"""English prose and code average about four characters per token in the tokenizers in use."""


def heuristic_tokens(text: str) -> int:
    """``ceil(len(text) / 4)``: an estimate that needs no vocabulary; 0 for empty text."""
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def token_counter(name: str) -> TokenCounter:
    """The counter that ``MemoryConfig.token_counter`` names.

    Raises:
        ConfigurationError: the counter is not part of this version.
    """
    if name == "heuristic":
        return heuristic_tokens
    raise ConfigurationError(
        f"token_counter={name!r} is not available in this version; set token_counter='heuristic'.",
        {"setting": "token_counter"},
    )
