"""Facts from a model's answer: tolerant parsing, and the OpenAI extractor."""

from __future__ import annotations

import json
import math
from typing import Any, get_args

from actrone_memory.errors import ConfigurationError
from actrone_memory.models import Sensitivity
from actrone_memory.protocols import ExtractedFact

MAX_FACTS = 50
MAX_FACT_CHARACTERS = 2_000
MAX_TAGS = 20
MAX_TAG_CHARACTERS = 100
DEFAULT_IMPORTANCE = 0.6
LONGEST_ANSWER = 1_000_000

_FENCE = "```"


def parse_facts(raw: str) -> list[ExtractedFact]:
    """The facts in a model's answer: a JSON list, or an object with a list under ``"facts"``, fenced or not.

    Never raises: entries without text are skipped, long texts are cut, at most 50 facts are kept, numbers are
    clamped; a sensitivity that is none of the known ones counts as "sensitive". [] when nothing can be read.
    """
    facts = (_fact(item) for item in _items(_text(raw)[:LONGEST_ANSWER]))
    return [fact for fact in facts if fact is not None][:MAX_FACTS]


def _items(raw: str) -> list[Any]:
    for candidate in _candidates(raw):
        try:
            data = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            data = data.get("facts")
        if isinstance(data, list):
            return data
    return []


def _candidates(raw: str) -> list[str]:
    """The answer itself, what stands in each fence, and what stands between the first and the last fence."""
    pieces = raw.split(_FENCE)
    fenced = [*pieces[1::2], _FENCE.join(pieces[1:-1])]
    return [raw, *(piece[4:] if piece[:4].lower() == "json" else piece for piece in fenced)]


def _fact(item: object) -> ExtractedFact | None:
    if not isinstance(item, dict):
        return None
    content = _text(item.get("content"))
    if not content:
        return None
    return ExtractedFact(
        content=content[:MAX_FACT_CHARACTERS],
        sensitivity=_sensitivity(item.get("sensitivity")),
        topic_tags=_tags(item.get("topic_tags")),
        importance=_importance(item.get("importance")),
    )


def _text(value: object) -> str:
    """``value`` as storable text: without NUL and lone surrogates; "" when it is no text."""
    if not isinstance(value, str):
        return ""
    return value.replace("\x00", "").encode("utf-8", "ignore").decode().strip()


def _sensitivity(value: object) -> Sensitivity:
    if value is None:
        return "none"
    for known in get_args(Sensitivity):
        if isinstance(value, str) and value.strip().lower() == known:
            label: Sensitivity = known
            return label
    return "sensitive"


def _tags(value: object) -> list[str]:
    tags = [_text(tag)[:MAX_TAG_CHARACTERS] for tag in value] if isinstance(value, list) else []
    return list(dict.fromkeys(tag for tag in tags if tag))[:MAX_TAGS]


def _importance(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return DEFAULT_IMPORTANCE
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return DEFAULT_IMPORTANCE
    return min(1.0, max(0.0, number)) if math.isfinite(number) else DEFAULT_IMPORTANCE


class OpenAIFactExtractor:
    """Extracts facts with an OpenAI chat model.

    Raises:
        ConfigurationError: always, in this version: the OpenAI client is not wired in yet.
    """

    def __init__(self, api_key: str, model: str = "gpt-4o-mini") -> None:
        raise ConfigurationError(
            f"OpenAIFactExtractor({model!r}) is not available in this version. Pass your own extractor to "
            "MemoryManager.create(extractor=...): any object with `async def extract(self, text)`.",
            {"missing": "openai", "api_key_given": bool(api_key)},
        )

    async def extract(self, text: str) -> list[ExtractedFact]:
        """The facts of ``text``, [] when there are none or the model's answer cannot be read."""
        raise NotImplementedError(text)
