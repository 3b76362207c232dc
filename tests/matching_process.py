"""A process that stores, reads and matches spans until it is killed: `python -m tests.matching_process DATA SEED`."""

import random
import sys
from contextlib import suppress
from pathlib import Path

from collector.live.active import ActiveRule
from collector.live.matching.matcher import Matcher
from rules.settling import Settling
from storage.errors import Conflict
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions
from tests.matching import active
from tests.storing import START_NS, a_batch, an_export, commit

EVER_NS = START_NS + 10**16
NAMED = [{"field": "name", "op": "regex", "value": "[05]$"}]
IN_FORCE = (active(1, conditions=NAMED), active(2, target="TRACE"), active(3, target="TRACE", conditions=NAMED))
BACKFILLED = (active(4, conditions=NAMED), active(5, target="TRACE"))
SETTLING = Settling(after_root_s=0.05, quiet_s=0.2, longest_s=0.5)


def revision(number: int) -> ActiveRule | None:
    """Return the revision of that number."""
    return next((one for one in (*IN_FORCE, *BACKFILLED) if one.revision == number), None)


def a_matcher(store: Store) -> Matcher:
    """Build a matcher that settles traces soon."""
    return Matcher(store.matching, lambda: IN_FORCE, SETTLING, enqueued=lambda: None, revision=revision)


def main() -> None:
    """Work until killed."""
    directory, seed = Path(sys.argv[1]), int(sys.argv[2])
    source = random.Random(seed)
    options = StoreOptions(writer=WriterOptions(commit_interval_s=0.01))
    with Store.open(directory, options) as store:
        live = a_matcher(store)
        live.start()
        for rule in BACKFILLED:
            with suppress(Conflict):  # as many as a rule may have were left by those that were killed
                live.backfills.start(rule, 0, EVER_NS)
        print("at work", flush=True)  # noqa: T201 - what the test waits for
        first = (seed % 1000) * 1_000_000
        while True:
            traces = [source.randrange(first, first + 50) for _ in range(source.randint(1, 10))]
            spans = source.randint(1, 20)
            exports = [an_export(spans, trace=trace, first=first + 20 * n) for n, trace in enumerate(traces)]
            commit(store, *map(a_batch, exports))
            first += 20 * len(traces)


if __name__ == "__main__":
    main()
