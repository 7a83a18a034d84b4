"""What memories state: the words that tell what a statement is about, and which memories are statements. Pure."""

from __future__ import annotations

import re
from functools import cache

from actrone_memory._lexical import GERMAN_STOPWORDS, STOPWORDS, fold, stem
from actrone_memory.models import ContentType, MemoryEntry

UPDATED_TYPES: list[ContentType] = ["injected", "fact"]
"""What may be outdated: turns and summaries say what was, not what holds."""

LONGEST_STATEMENT = 1_000
"""Longer texts are documents: a line in one says little about the whole."""

HAN = "\u3400-\u9fff"
"""Chinese characters, as a range in a pattern."""

EMPTY_WORDS = STOPWORDS | GERMAN_STOPWORDS

ORDINARY = frozenset(
    """run runs running ran use uses used using write writes written make makes made create creates created go goes
    come comes read reads work works live lives place put keep call called need needs needed require requires
    required support supports supported allowed maintained available done project tool tools tooling library
    framework runner setup repository repo code codebase everything everywhere throughout whole old new now nowadays
    currently today month week year version default always must should via with through instead longer longest team
    user entire completely fully accordingly please
    wir uns unser unsere neu neue neuen alt alte alten läuft laufen lief geschrieben erzeugt erstellt entstehen
    entsteht verwendet verwenden genutzt nutzen nutzt benutzt eingesetzt gebaut bauen erfolgen erfolgt kommt kommen
    gemacht liegen liegt projekt überall alles ab sofort seit heute künftig durch
    les des une nous avec dans pour sont est plus tous toutes utilise utilisent utilisons utilisé
    los las una nosotros con para por son todos todas usan usa usamos utiliza utilizan escriben escribe""".split()
)
"""Words that say nothing of the matter: verbs of use, the project itself, and the news of a change."""

ORDINARY_HAN = re.compile(
    "使用|采用|改用|改为|我们|项目|统一|全部|全面|已经|现在|目前|今后|进行|通过|编写|运行|执行|管理|处理|实现|生成|所有|必须|需要|"
    "不再|工具|框架|方式|方案|一律|[的了由从把将被和与已都均请]|[用在为是以到至成中]+$"
)
"""The same in Chinese, where nothing tells words apart."""


def stated_text(entry: MemoryEntry) -> str:
    """What is searched of a memory, by words and by meaning: its tags say what it is about, often in a task's words."""
    return "\n".join([entry.content, *entry.topic_tags])


@cache
def _word() -> re.Pattern[str]:
    return re.compile(rf"[^\W_{HAN}]+|[{HAN}]+")


@cache
def ordinary_stems() -> frozenset[str]:
    """The stems of `ORDINARY`; not made at once, as stemming is loaded with the first word."""
    return frozenset(stem(fold(word)) for word in ORDINARY)


def content_words(text: str) -> list[str]:
    """Stems of the words that tell what ``text`` is about, in order; Chinese as pairs of characters."""
    words: list[str] = []
    for found in _word().finditer(text):
        word = found.group()
        if word[0] >= HAN[0] and word[0] <= HAN[-1]:
            words += [run[i : i + 2] for run in ORDINARY_HAN.split(word) for i in range(len(run) - 1)]
        elif word.casefold() not in EMPTY_WORDS:
            words.append(stem(fold(word)))
    ordinary = ordinary_stems()
    return [word for word in words if word not in ordinary]
