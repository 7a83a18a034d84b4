"""One SQLite file: opened, checked, locked, shared by threads and processes. Knows no tables but their text."""

from actrone_memory.stores.sqlite.file.opening import Schema
from actrone_memory.stores.sqlite.file.pool import NotAtOnceError
from actrone_memory.stores.sqlite.file.shared import SQLiteFile

__all__ = ["NotAtOnceError", "SQLiteFile", "Schema"]
