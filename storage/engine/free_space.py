"""Return of free blocks inside the DuckDB file to the file system; DuckDB itself only truncates the end of the file.

DuckDB reuses freed blocks, but the file does not shrink while a block behind them is in use. The file's header points
to the list of free blocks that the last checkpoint wrote. Punching holes at these blocks (`fallocate`) frees their disk
space, and they read as zeros; blocks in use are not touched. The caller must ensure that the list is up to date:
nothing was written since the checkpoint, and there are no readers.
"""

import ctypes
import errno
import itertools
import logging
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

log = logging.getLogger(__name__)

_HEADER_BYTES, _HEADERS = 4096, 3  # the file's own header, then two of the database, written by turns
_MAGIC, _MAGIC_OFFSET = b"DUCK", 8
_DATABASE_HEADER = struct.Struct(
    "<8xqQQQQ"
)  # after a checksum: iteration, metadata, free list, blocks, size of a block
_CHECKSUM_BYTES = 8
_METADATA_BLOCKS = 64  # metadata blocks in each storage block
_INDEX_SHIFT = 56  # a pointer has the number of the block in its low bits
_NOWHERE = 2**64 - 1
_MOST_BLOCKS = 1 << 26  # 16 TiB

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # constants of linux/falloc.h
_NOT_HERE = {errno.EOPNOTSUPP, errno.ENOSYS}


class UnknownFormat(Exception):
    """The file does not look as expected, so nothing may be done to it."""


def punch_free(path: Path, *, block_bytes: int, blocks: int, free: int) -> int:
    """Punch holes for all free blocks; return the bytes freed.

    Return 0 if the file and DuckDB disagree, the format is unknown, or the file system does not support holes.
    """
    try:
        stated_bytes, free_list = free_blocks(path)
    except UnknownFormat as error:
        log.warning("%s keeps its free blocks: its format is not known (%s)", path, error)
        return 0
    free_list = [block for block in free_list if 0 <= block < blocks]  # a checkpoint cuts off others at the end
    if stated_bytes != block_bytes or len(set(free_list)) != free:
        log.warning(
            "%s keeps its free blocks: the file lists %d, DuckDB counts %d, or their block sizes differ",
            path,
            len(free_list),
            free,
        )
        return 0
    return punch(path, block_bytes, free_list)


def free_blocks(path: Path) -> tuple[int, list[int]]:
    """Return the size of a block, and the numbers of those that are free as of the last checkpoint.

    Raises:
        UnknownFormat: another version of DuckDB lays its files out differently.

    """
    with path.open("rb") as file:
        start = file.read(_HEADER_BYTES * _HEADERS)
        if len(start) < _HEADER_BYTES * _HEADERS or start[_MAGIC_OFFSET:][: len(_MAGIC)] != _MAGIC:
            raise UnknownFormat("no header")
        headers = [_DATABASE_HEADER.unpack_from(start, _HEADER_BYTES * number) for number in range(1, _HEADERS)]
        _, _, pointer, _, block_bytes = max(headers)
        if block_bytes & (block_bytes - 1) or not 1 << 14 <= block_bytes <= 1 << 18:
            raise UnknownFormat(f"blocks of {block_bytes} bytes")
        if pointer == _NOWHERE:
            return block_bytes, []
        numbers = b"".join(_chain(file, pointer, block_bytes))
    (count,) = struct.unpack_from("<Q", numbers)
    if count > _MOST_BLOCKS or len(numbers) < 8 * (count + 1):
        raise UnknownFormat(f"a list of {count} free blocks")
    return block_bytes, list(struct.unpack_from(f"<{count}q", numbers, 8))


def _chain(file: BinaryIO, pointer: int, block_bytes: int) -> Iterator[bytes]:
    """Yield the contents of a chain of metadata blocks, each of which begins with the address of the next."""
    # A metadata block is 1/64 of a storage block without its checksum, rounded down to whole 8-byte words.
    nbytes = (block_bytes - _CHECKSUM_BYTES) // _METADATA_BLOCKS // 8 * 8
    seen: set[int] = set()
    while pointer != _NOWHERE:
        block, index = pointer & ((1 << _INDEX_SHIFT) - 1), pointer >> _INDEX_SHIFT
        if pointer in seen or block >= _MOST_BLOCKS or index >= _METADATA_BLOCKS:
            raise UnknownFormat("a cycle or a pointer out of range in the metadata")
        seen.add(pointer)
        file.seek(_HEADER_BYTES * _HEADERS + block * block_bytes + _CHECKSUM_BYTES + index * nbytes)
        content = file.read(nbytes)
        if len(content) < nbytes:
            raise UnknownFormat("metadata beyond the end")
        (pointer,) = struct.unpack_from("<Q", content)
        yield content[8:]


def punch(path: Path, block_bytes: int, blocks: list[int]) -> int:
    """Free the disk space of these blocks; return by how many bytes that shrinks the file's allocation."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        before = os.fstat(descriptor).st_blocks
        for first, count in _runs(blocks):
            offset = _HEADER_BYTES * _HEADERS + first * block_bytes
            if not _punch_hole(descriptor, offset, count * block_bytes):
                return 0
        return (before - os.fstat(descriptor).st_blocks) * 512
    finally:
        os.close(descriptor)


def _runs(blocks: list[int]) -> Iterator[tuple[int, int]]:
    for _, run in itertools.groupby(enumerate(sorted(blocks)), key=lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        yield numbers[0], len(numbers)


def _punch_hole(descriptor: int, offset: int, nbytes: int) -> bool:
    """Punch a hole; return False if the file system does not support it."""
    fallocate = getattr(ctypes.CDLL(None, use_errno=True), "fallocate", None)
    if fallocate is None:
        return False
    fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, offset, nbytes) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NOT_HERE:
        return False
    raise OSError(number, os.strerror(number))
