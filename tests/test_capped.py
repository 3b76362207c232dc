"""A request_budget with an end of its own."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from collector.live.jobs.capped import Capped
from evaluators.chat.request_budget import Estimate, RequestUsage, UnlimitedBudget
from evaluators.errors import OverBudget


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 3)), max_size=12))
def test_never_more_than_the_cap_is_set_aside_or_spent(requests: list[tuple[int, int, int]]) -> None:
    """Whatever requests ask for, and whether they report their usage, together they stay within the cap."""
    most = Estimate(input_tokens=100, output_tokens=100)

    async def ask() -> int:
        capped, fares, spent = Capped(UnlimitedBudget(), most), [], 0
        for tokens_in, tokens_out, ends in requests:
            try:
                fares.append(
                    (await capped.reserve(Estimate(input_tokens=tokens_in, output_tokens=tokens_out)), tokens_in)
                )
            except OverBudget:
                continue
            if ends and fares:
                fare, held = fares.pop()
                took = None if ends == 1 else held // ends
                spent += held if took is None else took
                fare.settle(RequestUsage(outcome="answered", input_tokens=took, output_tokens=took and 0))
        assert capped.taken.input_tokens == spent + sum(held for _, held in fares)
        return capped.taken.input_tokens

    assert asyncio.run(ask()) <= most.input_tokens
