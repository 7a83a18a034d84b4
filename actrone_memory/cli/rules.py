"""Reading a rules file: AGENTS.md, CLAUDE.md, .cursorrules, CONTRIBUTING.md. Text in, one rule for each statement out.

Markdown is read by markdown-it; what counts as one rule is decided here. A list item is a rule, with what is nested in
it; a paragraph is one, a table row is one. A block of code belongs to the text before it and is kept whole. Headings
become tags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

LONGEST_LEAD = 80
"""Characters of an introduction ("Before you commit:") that is repeated in front of each item of its list."""

LONGEST_ITEM = 600
"""Characters of an item with a nested list that is one rule; a longer one gives a rule for each nested item."""

LONGEST_TAG = 80

_CODE = ("fence", "code_block")
_LISTS = ("bullet_list", "ordered_list")
_COLONS = (":", "：")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")
_SENTENCE_END = re.compile(r"[.!?:;。！？：；…][*_`\"')\]]*$")
_CHECKBOX = re.compile(r"^\[[ xX]\]\s+")
_DECORATION = re.compile(r"^[^\w]*(?:\d+(?:\.\d+)*[.)]?\s+)?[^\w]*|[*`]+|[^\w\s+#)]+\s*$")
_WORD = re.compile(r"\w")


class Rule(NamedTuple):
    """One statement of a rules file, and the headings it stands under, outermost first."""

    text: str
    tags: list[str]


def read_rules(text: str) -> list[Rule]:
    """The rules of a file in the order in which they stand there, each text once; [] when it holds none."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    text = _FRONT_MATTER.sub("", text, count=1)
    blocks = _blocks(text)
    found: dict[str, list[str]] = {}
    for rule in _Reader(titled=sum(block.tag == "h1" for block in blocks) == 1).rules(blocks):
        if _WORD.search(rule.text):
            found.setdefault(rule.text, rule.tags)
    return [Rule(text, tags) for text, tags in found.items()]


@dataclass
class _Section:
    """Where in the file the reader stands: the headings around it."""

    titled: bool
    headings: list[tuple[int, str]] = field(default_factory=list)

    def enter(self, level: int, title: str) -> None:
        self.headings = [(above, name) for above, name in self.headings if above < level]
        self.headings.append((level, title))

    def tags(self, *more: str) -> list[str]:
        # The only heading of the first level is the title of the file: it says nothing of a single rule.
        titles = [title for level, title in self.headings if level > 1 or not self.titled]
        return list(dict.fromkeys(tag for tag in map(_tag, [*titles, *more]) if tag))


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
                if before is not None and before.type in _LISTS and found and found[-1].text.endswith(_COLONS):
                    found[-1] = found[-1]._replace(text=_with_code(found[-1].text, _code(block)))
                else:
                    found.append(Rule(_with_code(waiting or self._title(), _code(block)), self._section.tags()))
            elif block.type in _LISTS:
                found += self._listed(block, waiting)
            else:
                found += self._stated(waiting)
                found += self._other(block)
            waiting = _paragraph(block) if block.type == "paragraph" else ""
        return [*found, *self._stated(waiting)]

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
        """A paragraph is one rule; where every line is a sentence, each line is one."""
        lines = paragraph.split("\n")
        apart = len(lines) > 1 and all(_SENTENCE_END.search(line) for line in lines)
        for text in lines if apart else [" ".join(lines)]:
            if text:
                yield Rule(text, self._section.tags())

    def _listed(self, block: SyntaxTreeNode, before: str) -> Iterator[Rule]:
        """The items of a list; what stands before it leads to each of them, names them all, or is a rule by itself."""
        above, _, last = before.rpartition("\n")
        leads = len(last) <= LONGEST_LEAD and last.endswith(_COLONS)
        names = 0 < len(last) <= LONGEST_LEAD and not _SENTENCE_END.search(last)
        yield from self._stated(above if leads or names else before)
        tags = self._section.tags(last) if names else self._section.tags()
        for item in block.children:
            yield from (Rule(text, tags) for text in self._item(item, last if leads else ""))

    def _item(self, item: SyntaxTreeNode, lead: str) -> Iterator[str]:
        """The rules of one list item: one, or one for each item nested in it where it only introduces them."""
        blocks = item.children
        own = _CHECKBOX.sub("", " ".join(_paragraph(block) for block in blocks if block.type == "paragraph"))
        own = own.replace("\n", " ")
        code = "\n".join(_code(block) for block in blocks if block.type in _CODE)
        nested = [child for block in blocks if block.type in _LISTS for child in block.children]
        stated = _led(lead, _with_code(own, code) if code else own)
        if nested and (not own or own.endswith(_COLONS)):
            yield from [stated] if code else []
            inner = _led(lead, own) if own and len(own) <= LONGEST_LEAD else lead
            yield from (text for child in nested for text in self._item(child, inner))
        elif stated:
            yield from _with_points(stated, own, [text for child in nested for text in self._item(child, "")])
        others = [block for block in blocks if block.type not in {"paragraph", *_CODE, *_LISTS}]
        yield from (rule.text for rule in self.rules(others))

    def _rows(self, table: SyntaxTreeNode) -> Iterator[Rule]:
        """Each row with the names of its columns."""
        names: list[str] = []
        for row in table.walk():
            if row.type != "tr":
                continue
            cells = [_inline(cell) for cell in row.children]
            if not names:
                names = cells
                continue
            pairs = zip(names, cells, strict=False)
            text = "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)
            if text:
                yield Rule(text, self._section.tags())

    def _title(self) -> str:
        return f"{self._section.headings[-1][1]}:" if self._section.headings else ""


def _code(block: SyntaxTreeNode) -> str:
    """A block of code with its fences."""
    fence = block.markup or "```"
    return f"{fence}{block.info.strip()}\n{block.content.rstrip()}\n{fence}"


def _blocks(text: str) -> list[SyntaxTreeNode]:
    return SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(text)).children


def _inside(block: SyntaxTreeNode) -> list[SyntaxTreeNode]:
    """What stands between the tags of a block of HTML, read as Markdown: people wrap rules in tags of their own."""
    return [inner for inner in _blocks(_MARKUP.sub("", _COMMENT.sub("", block.content))) if inner.type != "html_block"]


def _paragraph(block: SyntaxTreeNode) -> str:
    """The text of a paragraph with its line ends, without comments."""
    lines = [line.strip() for line in _COMMENT.sub("", _source(block)).split("\n")]
    return "\n".join(line for line in lines if line)


def _source(block: SyntaxTreeNode) -> str:
    """The inline text as it was written, links and emphasis included."""
    return "\n".join(child.content for child in block.children if child.type == "inline")


def _inline(block: SyntaxTreeNode) -> str:
    return " ".join(_COMMENT.sub("", _source(block)).split())


def _with_points(stated: str, own: str, points: Sequence[str]) -> list[str]:
    """A rule with what is nested in it: one text, or one for each point where that would be long."""
    whole = "\n".join([stated, *(f"- {point}" for point in points)])
    if not points or len(whole) <= LONGEST_ITEM:
        return [whole]
    shared = f"{own.rstrip('.')}:" if len(own) <= LONGEST_LEAD else ""
    return [stated, *(_led(shared, point) for point in points)]


def _led(lead: str, text: str) -> str:
    return f"{lead} {text}".strip() if text else ""


def _with_code(text: str, code: str) -> str:
    return f"{text}\n{code}" if text else code


def _tag(heading: str) -> str:
    """A heading as a tag: lower case, without numbering and decoration."""
    return " ".join(_DECORATION.sub(" ", heading).split()).casefold()[:LONGEST_TAG].strip()
