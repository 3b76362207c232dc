"""Files that commands write for their users."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name once all of it is on the disk; each call writes one of its own until then.

    Only its owner reads it, because it may hold prompts; one that replaces another file keeps that one's mode.
    """
    part = file.with_name(f"{file.name}.{secrets.token_hex(4)}.part")
    try:
        part.touch(mode=0o600, exist_ok=False)
        with suppress(FileNotFoundError):
            shutil.copymode(file, part)
        with part.open("wb") as opened:
            yield opened
            opened.flush()
            os.fsync(opened.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
