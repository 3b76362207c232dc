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
    """Open a temporary file that replaces `file` once it is complete and synced.

    A new file is readable by its owner only, because it may hold prompts; a replaced file keeps its mode. Concurrent
    calls write to different temporary files.
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
