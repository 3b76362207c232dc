"""What the server changes about memory."""

import gc
import weakref

from collector.memory import collect_rarely


class Node:
    """One that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_still_found_though_more_rarely() -> None:
    """Garbage that refers to itself leaves by itself: after more new objects than Python waits for, and not before."""
    before = gc.get_threshold()
    try:
        collect_rarely()
        node = Node()
        gone = weakref.ref(node)
        del node
        kept: list[list[int]] = [[] for _ in range(2 * before[0])]
        assert gone() is not None
        kept += [[] for _ in range(60_000)]
        assert gone() is None
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
