"""A process that asks a judge until its budget is spent, `python -m tests.judge_crowd DATA`, made to be killed."""

import asyncio
import sys
from pathlib import Path

from evaluators.errors import OverBudget
from storage.store import Store
from tests.connecting import Hub, an_active_rule

AT_ONCE = 4


async def ask_until_spent(hub: Hub) -> None:
    """Ask, several at a time, as long as there is money."""
    active = an_active_rule()
    await hub.ask(active)  # which takes a second, and would be all that is ever killed
    print("begun", flush=True)  # noqa: T201 - the test reads it

    async def ask_on() -> None:
        while True:
            try:
                await hub.ask(active)
            except OverBudget:
                return

    await asyncio.gather(*(ask_on() for _ in range(AT_ONCE)))


def main(data: Path) -> None:
    """Say when it has begun, and when everything is spent and on record."""
    with Store.open(data) as store:
        hub = Hub(store)
        hub.run(ask_until_spent(hub))
    print("spent", flush=True)  # noqa: T201 - likewise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
