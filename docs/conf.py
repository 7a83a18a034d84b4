"""The site that `make docs` builds: the pages of this folder, which read as they are too, and the docstrings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_type_hints

from pydantic import BaseModel
from pydantic_core import PydanticUndefined
from sphinx.application import Sphinx
from sphinx.util import inspect

import actrone_langchain
import actrone_llamaindex
import actrone_memory
import actrone_memory.testing

PACKAGES = actrone_memory, actrone_memory.testing, actrone_langchain, actrone_llamaindex
"""Imported here: autodoc imports as type checkers do, which not all of LlamaIndex survives."""

SECTIONS = {
    "Begin": ["quickstart", "concepts", "limits"],
    "Guides": [
        "langchain",
        "llamaindex",
        "command-line",
        "sqlite",
        "production",
        "models",
        "settings",
        "own-parts",
    ],
    "Coming from elsewhere": ["from-langchain", "from-llamaindex", "from-actrone-memory-0.3"],
    "What it holds": ["guarantees", "measured"],
    "Reference": [
        "api/manager",
        "api/data",
        "api/settings",
        "api/errors",
        "api/stores",
        "api/models",
        "api/seams",
        "api/testing",
        "api/langchain",
        "api/llamaindex",
    ],
}
"""Every page, in the order of the menu. It stands here, as in a page it would be code to readers of the page itself."""

project = "actrone-memory"
author = "The actrone-memory maintainers"
release = version = actrone_memory.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
default_role = "py:obj"  # one backtick in a docstring names a thing of ours
myst_heading_anchors = 3
smartquotes_action = "D"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config"}
python_maximum_signature_line_length = 100
autodoc_type_aliases = {name: name for name in ("ContentType", "Sensitivity")}
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = "actrone-memory"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = html_show_copyright = False
pygments_style, pygments_dark_style = "friendly", "monokai"


def setup(app: Sphinx) -> None:
    """Three things that Sphinx leaves to us: the menu, fields of models, and signatures that nobody types."""
    app.connect("source-read", _add_menu)
    app.connect("autodoc-process-signature", _shorten_signature)
    app.connect("autodoc-process-docstring", _add_fields)


def _add_menu(_app: Sphinx, page: str, source: list[str]) -> None:
    if page == "index":
        menus = (
            "```{toctree}\n:hidden:\n:caption: " + caption + "\n\n" + "\n".join(pages) + "\n```"
            for caption, pages in SECTIONS.items()
        )
        source[0] += "\n\n" + "\n\n".join(menus) + "\n"


def _shorten_signature(
    _app: Sphinx, _kind: str, _name: str, found: object, _options: object, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    """A model's fields stand in a table; a protocol, a suite and an error are not made with arguments of interest."""
    if isinstance(found, type) and (_is_model(found) or getattr(found, "_is_protocol", False)):
        return "", returns
    return signature and re.sub(r"TypeAliasForwardRef\('(\w+)'\)", r"\1", signature), returns


def _add_fields(_app: Sphinx, _kind: str, _name: str, found: Any, _options: object, lines: list[str]) -> None:
    if isinstance(found, type) and _is_model(found):
        lines += ["", ".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
        lines += _row("field", "type", "default")
        types = get_type_hints(found)
        for name in found.__annotations__:
            if name in found.model_fields:
                kind = re.sub(r"~?\b(?:\w+\.)+", "", inspect.stringify_annotation(types[name], "smart"))
                lines += _row(f"``{name}``", f"``{kind}``", _default(found, name))
        lines.append("")


def _is_model(kind: type) -> bool:
    return issubclass(kind, BaseModel)


def _row(*cells: str) -> Iterator[str]:
    return (f"   {'*' if i == 0 else ' '} - {cell}" for i, cell in enumerate(cells))


def _default(model: type[BaseModel], name: str) -> str:
    field = model.model_fields[name]
    if field.default_factory is not None:
        made = field.default_factory
        return f"``{made()!r}``" if made in (list, dict) else "made anew"
    return "required" if field.default is PydanticUndefined else f"``{field.default!r}``"
