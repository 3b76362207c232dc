"""A process that moves and erases until it is killed: `python -m tests.lake_moving_process DATA LAKE NOW_NS`."""

import sys
from pathlib import Path

from collector.live.upkeep.lake_mover import LakeMover
from storage.upkeep import cascade
from tests.lake import publish_all
from tests.storing import a_store


def main() -> None:
    """Move what is due at a moment, and process deletions."""
    data, uri, now_ns = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    cascade.STEP_PARTS = cascade.STEP_SPANS = 2  # many transactions
    with a_store(data) as store:
        print("at work", flush=True)  # noqa: T201 - what the test waits for
        store.moving.doubt = lambda: None
        lake = store.lake(uri)
        publish_all(lake)
        upkeep = store.lake_upkeep(lake)
        LakeMover(upkeep, store.moving, hot_days=1, clock=lambda: now_ns).move(lambda: False)
        while store.erasure.work():
            pass
        print("done", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
