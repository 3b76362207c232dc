"""Files that are damaged: a flipped bit, as a disk or a cable makes one."""

from pathlib import Path

BLOCKS_BEGIN, BLOCK_BYTES = 3 * 4096, 256 << 10  # of a database file


def flip(path: Path, offset: int, bits: int = 0x10) -> None:
    """Change one byte of a file in place."""
    with path.open("r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ bits]))


def blocks(path: Path) -> range:
    """Return the numbers of the blocks of a database file."""
    return range((path.stat().st_size - BLOCKS_BEGIN) // BLOCK_BYTES)


def flip_in_block(path: Path, number: int) -> None:
    """Change one byte in the middle of a block of a database file."""
    flip(path, BLOCKS_BEGIN + number * BLOCK_BYTES + BLOCK_BYTES // 2)
