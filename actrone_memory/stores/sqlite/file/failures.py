"""What is raised when a file may not, or cannot, be used: in our words, with what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actrone_memory.errors import ConfigurationError, StoreConnectionError
from actrone_memory.stores.sqlite.file.connections import CORRUPT, LOCKED, UNWRITABLE, WAIT_SECONDS, primary_code


class Failures:
    """The errors of the file at ``path``; ``store`` is the name that they give."""

    def __init__(self, path: Path, store: str) -> None:
        self._path, self._store = path, store

    def refusal(self, problem: str, remedy: str) -> ConfigurationError:
        """The file is not one for us."""
        return ConfigurationError(
            f"{self._path} {problem}; it was left as it is. {remedy} (ACTRONE_SQLITE_PATH, or sqlite_path).",
            {"setting": "sqlite_path", "path": str(self._path)},
        )

    def damaged(self, finding: str) -> ConfigurationError:
        """The file cannot be trusted."""
        return self.refusal(
            f"is damaged ({' '.join(finding.split())})",
            "Put a copy in its place, save what can be read with the sqlite3 tool's .recover, or name another file",
        )

    def without_shared_memory(self) -> ConfigurationError:
        """The drive does not let processes share the file."""
        return ConfigurationError(
            f"The drive of {self._path} has no shared memory for SQLite (a network drive?): put the file on a local "
            "one (ACTRONE_SQLITE_PATH, or sqlite_path).",
            {"setting": "sqlite_path", "path": str(self._path)},
        )

    def unusable(self, error: OSError) -> StoreConnectionError:
        """The system does not let us at the file."""
        return StoreConnectionError(
            self._store,
            error,
            advice=f"{self._path} must be a file that may be read and written, in a folder that may be too; or set "
            "ACTRONE_SQLITE_PATH to another place.",
        )

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Whatever SQLite raises leaves here as a `StoreConnectionError`."""
        try:
            yield
        except sqlite3.Error as error:
            raise StoreConnectionError(
                self._store, error, {"path": str(self._path)}, advice=self._advice(primary_code(error))
            ) from error

    def _advice(self, code: int) -> str:
        path = self._path
        if code in LOCKED:
            return (
                f"Another program kept {path} locked for {WAIT_SECONDS:g} seconds: look for one that holds a "
                "transaction open, then try again."
            )
        if code == sqlite3.SQLITE_FULL:
            return f"Nothing was written. Make room on the drive of {path}, then try again."
        if code == sqlite3.SQLITE_IOERR:
            return f"Nothing was written. Look whether the drive of {path} is full, unplugged or a network drive."
        if code in UNWRITABLE:
            return f"Look whether {path} and its folder may be written, or set ACTRONE_SQLITE_PATH."
        if code in CORRUPT:
            return f"{path} is damaged: put a copy in its place, or save what can be read with sqlite3's .recover."
        return f"The file is {path}."
