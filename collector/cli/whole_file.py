"""Files that commands write atomically."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(file: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name once it is complete on disk; until then each call writes its own.

    Only its owner may read it, because it may hold prompts; a replaced file keeps its mode.
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
