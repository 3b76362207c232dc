"""Numbers that clients send, within bounds whose squares and sums are finite."""

from typing import Annotated

from pydantic import Field

from storage.records import MAX_COUNT

Number = Annotated[float, Field(ge=-MAX_COUNT, le=MAX_COUNT, allow_inf_nan=False)]
"""A score, a threshold, or an end of a range."""

Amount = Annotated[float, Field(ge=0, le=MAX_COUNT, allow_inf_nan=False)]
"""A cost, a duration, or a margin."""

Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]
