"""Files of exports: lines in, lines out, and nothing half-written under the name that was asked for."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from actrone_memory import ValidationError

STANDARD = "-"


@contextmanager
def writing(file: str) -> Iterator[Callable[[str], object]]:
    """Write lines to ``file``, which appears whole when all is written; for ``-`` to the standard output.

    Raises:
        ValidationError: the file cannot be written.
    """
    if file == STANDARD:
        yield lambda line: sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
        return
    target = Path(file)
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # readable by the user alone
    except OSError as error:
        raise ValidationError("FILE", f"{file} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as lines:
            yield lambda line: lines.write(f"{line}\n")
        Path(name).replace(target)
    except OSError as error:
        raise ValidationError("FILE", f"{file} cannot be written: {error.strerror}") from None
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def reading(file: str) -> Iterator[Iterator[str]]:
    """The lines of ``file``, or of the standard input for ``-``.

    Raises:
        ValidationError: the file cannot be read, or is no text.
    """
    try:
        if file == STANDARD:
            sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr] # a text stream of the interpreter
            yield iter(sys.stdin)
        else:
            with Path(file).open(encoding="utf-8") as lines:
                yield iter(lines)
    except OSError as error:
        raise ValidationError("FILE", f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValidationError("FILE", f"{file} is no UTF-8 text, so it is no export") from None
