"""Where the file lies: at the path that was given, or where the system keeps data of programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from actrone_memory import _validation
from actrone_memory.errors import ConfigurationError


def checked_path(path: object) -> Path:
    """The absolute path of the file that was named; the user's own for None.

    Raises:
        ConfigurationError: ``path`` is no path of a file.
    """
    if path is None:
        return default_path()
    try:
        if not isinstance(path, str | os.PathLike) or not str(path).strip() or str(path) == ":memory:":
            raise ValueError("name a file, or use InMemoryStore")
        checked = Path(path).expanduser().absolute()
        os.fsencode(checked)
        if "\x00" in str(checked):
            raise ValueError("a path holds no NUL character")
    except (ValueError, RuntimeError, TypeError) as error:
        raise ConfigurationError(
            f"sqlite_path={_validation.shown(path)} is no path of a file: {error}.", {"setting": "sqlite_path"}
        ) from None
    return checked


def default_path() -> Path:
    """The file of this user: ``actrone-memory/memory.db`` where the system keeps data of programs.

    Raises:
        ConfigurationError: the user has no home folder.
    """
    try:
        return _data_folder() / "actrone-memory" / "memory.db"
    except RuntimeError:
        raise ConfigurationError(
            "There is no home folder for the default of sqlite_path: set ACTRONE_SQLITE_PATH to a file.",
            {"setting": "sqlite_path"},
        ) from None


def _data_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    named = Path(os.environ.get("XDG_DATA_HOME") or "-")
    return named if named.is_absolute() else Path.home() / ".local" / "share"
