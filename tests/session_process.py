"""Sessions stored and judged in a process that is killed: `python -m tests.session_process DATA FIRST`."""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.live.active import ActiveRule
from collector.live.matching.matcher import Matcher
from rules.settling import Settling
from storage.ingest.batch import SpanBatch
from storage.store import Store
from tests.matching import adding_up
from tests.storing import START_NS, WAIT_S, a_batch, a_store, an_export, commit
from tests.working import Book, in_force, working

RULES: dict[int, ActiveRule] = {
    number: in_force(number, "check", {"target": "SESSION", "evaluator": "length", **more})
    for number, more in (
        (1, {"config": {"maximumOutputLength": 100}}),
        (2, {"config": {"maximumOutputLength": 5}}),
        (3, {"config": {"maximumOutputLength": 100}, "conditions": [{"field": "name", "op": "=", "value": "span 7"}]}),
        (4, {"config": {"maximumOutputLength": 100}, "settle": 1}),
    )
}
SETTLING = Settling(after_root_s=0.05, quiet_s=0.2, longest_s=0.5, session_s=0.3)


@contextmanager
def judging(store: Store) -> Iterator[Callable[[], bool]]:
    """Run trace updater, matcher and workers on the store; yield a function that waits for all of them."""
    with working(Book(store, revisions=RULES)) as workers, adding_up(store) as traces:
        matcher = Matcher(
            store.matching,
            lambda: list(RULES.values()),
            SETTLING,
            enqueued=workers.wake,
            revision=RULES.get,
        )
        matcher.start()
        try:
            yield lambda: traces.wait_idle(WAIT_S) and matcher.wait_matched(WAIT_S) and workers.wait_idle(WAIT_S)
        finally:
            matcher.close()


def a_turn(session: int, turn: int, *, name: int = 0) -> SpanBatch:
    """Build a trace of a session."""
    export = an_export(1, first=name, trace=session * 100 + turn)
    (span,) = export.resource_spans[0].scope_spans[0].spans
    span.start_time_unix_nano = span.end_time_unix_nano = START_NS + turn * 1_000_000_000
    for key, text in (("session.id", f"session {session}"), ("output.value", f"answer {turn}")):
        span.attributes.add(key=key).value.string_value = text
    return a_batch(export)


def main() -> None:
    """Work until killed: sessions begin, get turns, come to rest, and some get turns after that."""
    directory, first = Path(sys.argv[1]), int(sys.argv[2])
    source = random.Random(first)
    turns: dict[int, int] = {}
    with a_store(directory) as store, judging(store):
        print("at work", flush=True)  # noqa: T201 - what the test waits for
        while True:
            batches = []
            for session in source.sample(range(first, first + 40), 5):
                turns[session] = turns.get(session, -1) + 1
                batches.append(a_turn(session, turns[session], name=source.choice((0, 7))))
            commit(store, *batches)
            time.sleep(source.uniform(0, 0.2))


if __name__ == "__main__":
    main()
