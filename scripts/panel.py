"""Makes docs/panel.svg: the panel that a notebook shows of a context, of a small day with a coding assistant."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from actrone_memory import MemoryConfig, RetrievedContext, SyncMemoryManager
from actrone_memory.models import utc_now

RULES = [
    ("Unit tests run with Vitest and sit next to the module they cover.", "AGENTS.md"),
    ("End-to-end tests run with Playwright, in e2e/.", "AGENTS.md"),
    ("Money is kept in cents, as integers.", "AGENTS.md"),
    ("Commit messages follow Conventional Commits.", "AGENTS.md"),
    ("Test data comes from the builders in fixtures/, never from production.", "review 214"),
]
YESTERDAY = [
    ("Where do the fixtures of the cart live?", "In fixtures/cart.ts, one builder for each kind of article."),
    ("Format the invoice date in the header.", "Done, with date-fns."),
]
TODAY = [("Round the total of the cart to whole cents.", "Done: cart.ts adds up integers now.")]
TASK = "add a unit test for the total of the cart"

WIDTH, HEIGHT = 680, 356
SVG = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">
<title>The panel of a retrieved context</title>
<style>
.card {{ background: #fff; color: #1f2733; border-radius: 6px; height: {HEIGHT - 2}px; margin: 1px; overflow: hidden }}
.card > div {{ box-sizing: border-box; height: 100%; max-width: none !important }}
@media (prefers-color-scheme: dark) {{ .card {{ background: #14171c; color: #e6eaf0 }} }}
</style>
<foreignObject width="{WIDTH}" height="{HEIGHT}"><div xmlns="http://www.w3.org/1999/xhtml" class="card">
PANEL
</div></foreignObject>
</svg>
"""


def context() -> RetrievedContext:
    """What is recalled for the task, on the second day."""
    with SyncMemoryManager.create(MemoryConfig(embedding_provider="static", _env_file=None)) as memory:
        for rule, source in RULES:
            memory.inject_memory("repo:web", rule, importance=0.9, source=source)
        for session_id, turns, age in (("monday", YESTERDAY, timedelta(days=1)), ("tuesday", TODAY, timedelta())):
            for request, answer in turns:
                memory.store_turn("repo:web", session_id, request, answer, timestamp=utc_now() - age)
        memory.drain()
        return memory.retrieve_context("repo:web", "tuesday", TASK, token_budget=800)


def main() -> None:
    """Write the picture to the file that is named."""
    panel = context()._repr_html_().replace("&middot;", "·")  # an SVG knows the entities of XML alone
    Path(sys.argv[1]).write_text(SVG.replace("PANEL", panel), "utf-8")


if __name__ == "__main__":
    main()
