"""Waiting items are shared by their consumers; a helper leaves the first consumer its part."""

import threading

from collector.live.jobs.work.inbox import Inbox

WAIT_S = 20.0


def taking(inbox: Inbox[int], taken: list[list[int]], *, beyond: int = 0) -> threading.Thread:
    """Start a thread that takes once."""
    thread = threading.Thread(target=lambda: taken.append(inbox.take(10, beyond=beyond)))
    thread.start()
    return thread


def test_who_helps_out_takes_only_what_is_beyond() -> None:
    """Few items wake the first alone, many wake the helper too, and none is taken twice or left."""
    inbox: Inbox[int] = Inbox()
    helped: list[list[int]] = []
    helper = taking(inbox, helped, beyond=3)
    inbox.put([1, 2, 3])
    helper.join(0.2)
    assert helper.is_alive()
    assert inbox.take(10) == [1, 2, 3]
    inbox.put([4, 5, 6, 7])
    helper.join(WAIT_S)
    assert helped == [[4, 5, 6, 7]]
    assert inbox.close() == []


def test_closing_ends_every_wait() -> None:
    """Waiters, for any item or for many, learn that there is nothing more."""
    inbox: Inbox[int] = Inbox()
    taken: list[list[int]] = []
    waiting = [taking(inbox, taken), taking(inbox, taken, beyond=5)]
    assert inbox.close() == []
    for each in waiting:
        each.join(WAIT_S)
    assert taken == [[], []]
    assert not inbox.put([1])
