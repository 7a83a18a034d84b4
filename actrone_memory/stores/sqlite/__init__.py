"""Both tiers in one SQLite file: no service, and everything is there again in the next process."""

from actrone_memory.stores.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
