"""Workers in processes that tests kill, forked from a process that has already done the slow imports."""

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from collector.live.active import ActiveRule
from tests import forking
from tests.storing import a_store
from tests.working import QUICK, Book, a_connection, working

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])

READY_S = 60.0


def work(directory: Path, base_url: str, rules: Sequence[ActiveRule], children: str, ready: Connection) -> None:
    """Evaluate until killed."""
    forking.fork_children(children)
    with a_store(directory) as store:
        book = Book(store, revisions={active.revision: active for active in rules})
        retry_policy = replace(QUICK, lease_s=0.5)
        with working(book, {"main": a_connection(base_url, timeout_s=30)}, retry_policy=retry_policy):
            ready.send("ready")
            time.sleep(600)


@contextmanager
def a_worker(directory: Path, base_url: str, rules: Sequence[ActiveRule]) -> Iterator[BaseProcess]:
    """Start a process that evaluates the jobs of a data directory, over one connection `main`; killed at the end."""
    ready, theirs = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=work, args=(directory, base_url, rules, forking.children(), theirs))
    process.start()
    try:
        theirs.close()
        assert ready.poll(READY_S)
        assert ready.recv() == "ready"
        yield process
    finally:
        process.kill()
        process.join()
        process.close()
        ready.close()
