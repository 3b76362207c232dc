"""A process that asks a judge until its budget is spent, `python -m tests.judge_crowd DATA MINUTE`, made to be killed.

Its clock stands still, so many minutes after noon.
"""

import asyncio
import sys
from pathlib import Path

from evaluators.errors import HeldBack, OverBudget
from storage.store import Store
from tests.connecting import AClock, Hub, an_active_rule

AT_ONCE = 50


async def ask_until_spent(hub: Hub) -> None:
    """Ask, several at a time, as long as there is money."""
    active = an_active_rule()
    try:
        await hub.ask(active)  # which takes a second, and would be all that is ever killed
    except (OverBudget, HeldBack):
        return
    finally:
        print("begun", flush=True)  # noqa: T201 - the test reads it

    async def ask_on() -> None:
        while True:
            try:
                await hub.ask(active)
            except (OverBudget, HeldBack):
                return

    await asyncio.gather(*(ask_on() for _ in range(AT_ONCE)))


def main(data: Path, minutes: int) -> None:
    """Say when it has begun, and when everything is spent and on record."""
    with Store.open(data) as store:
        clock = AClock()
        clock.forward(minutes=minutes)
        hub = Hub(store, clock=clock)
        hub.run(ask_until_spent(hub))
    print("spent", flush=True)  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
