"""How freed memory is kept: the columns of one group reuse the pages of the one before.

By default the allocators hand large freed blocks back to the operating system at once, and every group
pays again for having them mapped and cleared: up to a third of the CPU of a decode, measured.
"""

import ctypes
import sys

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # M_TRIM_THRESHOLD and so on in glibc's malloc.h
_KEEP_BYTES = 64 << 20
_ARENAS = 2  # what the decoder allocates the writer frees: with an arena for each thread it would not be used again
_LARGEST_KEPT_BYTES = 4 << 20  # larger blocks leave holes that nothing fits: 950 instead of 870 MiB at full load


def keep_freed_memory() -> None:
    """Let the C allocator keep what is freed, and Arrow use it. Elsewhere than on glibc, nothing changes."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return
    accepted = (
        mallopt(_MMAP_THRESHOLD, _LARGEST_KEPT_BYTES),
        mallopt(_TRIM_THRESHOLD, _KEEP_BYTES),
        mallopt(_ARENA_MAX, _ARENAS),
    )
    if all(accepted):
        pa.set_memory_pool(pa.system_memory_pool())
