"""Reading a rules file: AGENTS.md, CLAUDE.md, .cursorrules, CONTRIBUTING.md. Text in, one rule for each statement out.

Markdown is read by markdown-it; what counts as one rule is decided here. A list item is a rule, with what is nested in
it; a paragraph is one, a table row is one. A block of code belongs to the text before it and is kept whole. Headings
become tags.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from actrone_memory._ids import memory_id
from actrone_memory.cli import wording

LONGEST_ITEM = 600
"""Characters of an item with a nested list that is one rule; a longer one gives a rule for each nested item."""

LOWEST_LEVEL = 7
"""Below the six levels of headings."""

_CODE = ("fence", "code_block")
_LISTS = ("bullet_list", "ordered_list")
_FRONT_MATTER = re.compile(r"\A(---|\+\+\+)[ \t]*\n.*?^(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_SUMMARY = re.compile(r"<summary>[^<]*</summary>")
_MARKUP = re.compile(r"<(/?)([a-zA-Z][\w-]*)[^<>]*>")
_WRAPPED = re.compile(r"\A<([a-zA-Z][\w-]*)[^<>]*>(.*)</\1>\Z", re.DOTALL)
_CHECKBOX = re.compile(r"^\[[ xX]\]\s+")


class Rule(NamedTuple):
    """One statement of a rules file, and the headings it stands under, outermost first."""

    text: str
    tags: list[str]


def read_rules(text: str) -> list[Rule]:
    """The rules of a file in the order in which they stand there, each text once; [] when it holds none."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    text = _FRONT_MATTER.sub("", text, count=1)
    blocks = _blocks(text)
    found: dict[str, Rule] = {}
    for rule in _Reader(titled=sum(block.tag == "h1" for block in blocks) == 1).rules(blocks):
        if wording.says_something(rule.text):
            found.setdefault(memory_id("", rule.text), rule)
    return list(found.values())


@dataclass
class _Section:
    """Where in the file the reader stands: the headings around it."""

    titled: bool
    headings: list[tuple[int, str]] = field(default_factory=list)

    def enter(self, level: int, title: str) -> None:
        self.headings = [(above, name) for above, name in self.headings if above < level]
        self.headings.append((level, title))

    @property
    def title(self) -> str:
        return self.headings[-1][1] if self.headings else ""

    def warning(self) -> str:
        """The heading without which what stands under it would mean the contrary, "" where there is none."""
        return next((title for title in reversed(self._titles()) if wording.forbids(title)), "")

    def tags(self, *more: str) -> list[str]:
        return list(dict.fromkeys(tag for tag in map(wording.tag, [*self._titles(), *more]) if tag))

    def _titles(self) -> list[str]:
        # The only heading of the first level is the title of the file: it says nothing of a single rule.
        return [title for level, title in self.headings if level > 1 or not self.titled]


class _Reader:
    """Reads blocks one after the other; ``titled``: the only heading of the first level names the file."""

    def __init__(self, *, titled: bool) -> None:
        self._section = _Section(titled)

    def rules(self, blocks: Sequence[SyntaxTreeNode]) -> list[Rule]:
        """The rules of neighbouring blocks of the file."""
        found: list[Rule] = []
        waiting = ""  # a paragraph that may belong to the block after it
        for before, block in zip([None, *blocks], blocks, strict=False):
            if block.type in _CODE:
                if before is not None and before.type in _LISTS and found and wording.announces(found[-1].text):
                    found[-1] = found[-1]._replace(text=_with_code(found[-1].text, _code(block)))
                else:
                    lead = wording.led(self._section.warning(), waiting) or wording.as_lead(self._section.title)
                    found.append(self._rule(_with_code(lead, _code(block))))
            elif block.type in _LISTS:
                found += self._listed(block, waiting)
            else:
                found += self._stated(waiting)
                found += self._other(block)
            waiting = self._waiting(block)
        return [*found, *self._stated(waiting)]

    def _waiting(self, block: SyntaxTreeNode) -> str:
        """The text of a paragraph; one that is bold from end to end is a heading below all others."""
        text = _paragraph(block) if block.type == "paragraph" else ""
        if title := wording.emphasised(text):
            self._section.enter(LOWEST_LEVEL, title)
            return ""
        return text

    def _other(self, block: SyntaxTreeNode) -> Iterable[Rule]:
        """The rules of a block that stands for itself; a heading has none, and names those that follow."""
        if block.type == "heading":
            self._section.enter(int(block.tag[1:]), _inline(block))
        if block.type == "html_block":
            return self.rules(_inside(block))
        if block.type == "blockquote":
            return self.rules(block.children)
        return self._rows(block) if block.type == "table" else []

    def _stated(self, paragraph: str) -> Iterator[Rule]:
        lead = self._section.warning()
        for text in wording.statements(paragraph):
            yield self._rule(wording.led(lead, text))

    def _listed(self, block: SyntaxTreeNode, before: str) -> Iterator[Rule]:
        """The items of a list; what stands before it leads to each of them, names them all, or is a rule by itself."""
        above, _, last = before.rpartition("\n")
        leads, names = wording.introduces(last), wording.names(last)
        yield from self._stated(above if leads or names else before)
        tag = last if names else ""
        lead = last if leads or wording.forbids(tag) else self._section.warning()
        for item in block.children:
            yield from (self._rule(text, tag) for text in self._item(item, lead))

    def _item(self, item: SyntaxTreeNode, lead: str) -> Iterator[str]:
        """The rules of one list item: one, or one for each item nested in it where it only introduces them."""
        blocks = item.children
        own = _CHECKBOX.sub("", " ".join(_paragraph(block) for block in blocks if block.type == "paragraph"))
        own = own.replace("\n", " ")
        code = "\n".join(_code(block) for block in blocks if block.type in _CODE)
        nested = [child for block in blocks if block.type in _LISTS for child in block.children]
        stated = wording.led(lead, _with_code(own, code) if code else own)
        if nested and (not own or wording.announces(own) or wording.labels(own)):
            yield from [stated] if code else []
            inner = wording.as_lead(wording.led(lead, own)) if own and len(own) <= wording.LONGEST_LEAD else lead
            yield from (text for child in nested for text in self._item(child, inner))
        elif stated:
            yield from _with_points(stated, own, [text for child in nested for text in self._item(child, "")])
        others = [block for block in blocks if block.type not in {"paragraph", *_CODE, *_LISTS}]
        yield from (rule.text for rule in self.rules(others))

    def _rows(self, table: SyntaxTreeNode) -> Iterator[Rule]:
        """Each row with the names of its columns."""
        columns: list[str] = []
        for row in table.walk():
            if row.type != "tr":
                continue
            cells = [_inline(cell) for cell in row.children]
            if not columns:
                columns = cells
                continue
            pairs = zip(columns, cells, strict=False)
            text = "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)
            if text:
                yield self._rule(wording.led(self._section.warning(), text))

    def _rule(self, text: str, *tags: str) -> Rule:
        return Rule(text, self._section.tags(*tags))


def _code(block: SyntaxTreeNode) -> str:
    """A block of code with its fences."""
    fence = block.markup or "```"
    return f"{fence}{block.info.strip()}\n{block.content.rstrip()}\n{fence}"


def _blocks(text: str) -> list[SyntaxTreeNode]:
    return SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(text)).children


def _inside(block: SyntaxTreeNode) -> list[SyntaxTreeNode]:
    """What stands between the tags of a block of HTML, read as Markdown: people wrap rules in tags of their own."""
    text = _MARKUP.sub(_spoken, _without_comments(block.content))
    return [inner for inner in _blocks(text) if inner.type != "html_block"]


def _without_comments(text: str) -> str:
    """``text`` without comments, and without the titles of what can be folded away."""
    commented, end, rest = text.rpartition("-->")  # no comment ends in the rest: not looking there keeps this quick
    return _SUMMARY.sub("", _COMMENT.sub("", commented + end) + rest)


def _spoken(tag: re.Match[str]) -> str:
    """What remains of a tag: its name where it opens and forbids, as ``<bad>`` does."""
    closes, name = tag.groups()
    return f"{name.capitalize()}: " if not closes and wording.forbids(name) else ""


def _paragraph(block: SyntaxTreeNode) -> str:
    """The lines of a paragraph, without comments and without tags around the whole."""
    return wording.lines_of(_WRAPPED.sub(r"\2", _without_comments(_source(block)).strip()))


def _source(block: SyntaxTreeNode) -> str:
    """The inline text as it was written, links and emphasis included."""
    return "\n".join(child.content for child in block.children if child.type == "inline")


def _inline(block: SyntaxTreeNode) -> str:
    return " ".join(_without_comments(_source(block)).split())


def _with_points(stated: str, own: str, points: Sequence[str]) -> list[str]:
    """A rule with what is nested in it: one text, or one for each point where that would be long."""
    whole = "\n".join([stated, *(textwrap.indent(f"- {point}", "  ").removeprefix("  ") for point in points)])
    if not points or len(whole) <= LONGEST_ITEM:
        return [whole]
    return [stated, *(wording.led(own if len(own) <= wording.LONGEST_LEAD else "", point) for point in points)]


def _with_code(text: str, code: str) -> str:
    return f"{text}\n{code}" if text else code
