"""Settings of the allocators, which keep freed memory, and of the garbage collector, which runs rarely.

By default the allocators hand large freed blocks back to the operating system at once, and for every
group they are mapped and cleared again: up to a third of the CPU of a decode, measured. So freed
memory is kept, and the columns of a group reuse the pages of the previous one.
"""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # M_TRIM_THRESHOLD and so on in glibc's malloc.h
_KEEP_BYTES = 64 << 20
_ARENAS = 2  # the writer frees memory of the decoder: with an arena for each thread, it would not be reused
_LARGEST_KEPT_BYTES = 4 << 20  # larger blocks leave holes that nothing fits: 950 instead of 870 MiB at full load


def keep_freed_memory() -> None:
    """Let the C allocator keep freed memory, and Arrow use this allocator. Without glibc, nothing changes."""
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


_YOUNG_OBJECTS = 50_000
"""New containers after which Python searches for cycles of garbage, instead of 700. The JSON of a commit of 8,192 spans
has more than 100,000, none of them garbage before the commit is read. In an equal mix of all recorded instrumentations,
a span took 103 µs of CPU to read with 700, 71 with 50,000, and 65 without the collector; a span of 1.2 kB took 17.8,
16.4 and 17.4."""


def collect_rarely() -> None:
    """Run the garbage collector more rarely, and ignore the objects that exist now: for a process that starts.

    No collection runs at once: of the 237,000 objects of a server after its imports, 5 were garbage, and finding them
    took 0.15 s.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, *gc.get_threshold()[1:])


@contextmanager
def collecting_later() -> Iterator[None]:
    """Run no garbage collection during the block, which makes many objects without cycles.

    For an equal mix of all recorded instrumentations this saves 12 of 76 µs of CPU a span, on a busy machine.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
