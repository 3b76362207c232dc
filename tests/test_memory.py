"""The server's memory settings."""

import gc
import weakref

import pytest

from collector.memory import collect_rarely, collecting_later


class Node:
    """An object that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_cycles_are_still_found_though_more_rarely() -> None:
    """Garbage that refers to itself leaves by itself: after more new objects than Python waits for, and not before."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)  # as Python has it; the tests collect as the server does
    few = 2 * gc.get_threshold()[0]
    try:
        collect_rarely()
        node = Node()
        gone = weakref.ref(node)
        del node
        kept: list[list[int]] = [[] for _ in range(few)]
        assert gone() is not None
        kept += [[] for _ in range(60_000)]
        assert gone() is None
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def test_collecting_waits_while_much_is_made() -> None:
    """No cycles are looked for within, and they are again afterwards, whatever was raised."""
    with pytest.raises(RuntimeError):
        fail_without_collecting()
    assert gc.isenabled()


def test_collecting_that_was_off_stays_off() -> None:
    """A process with garbage collection disabled keeps it disabled."""
    gc.disable()
    try:
        with collecting_later():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def fail_without_collecting() -> None:
    """Raise something while no cycles are looked for."""
    with collecting_later():
        assert not gc.isenabled()
        raise RuntimeError
