"""Numbers in requests, bounded so that their squares and sums are finite."""

from typing import Annotated

from pydantic import BeforeValidator, Field

from evaluators.wire import number_of
from storage.records import MAX_COUNT

_MAX_NUMBER = MAX_COUNT - 1  # not 2^53, since as a float 2^53 + 1 is the same

Number = Annotated[float, Field(ge=-_MAX_NUMBER, le=_MAX_NUMBER, allow_inf_nan=False), BeforeValidator(number_of)]
"""A score, a threshold, or an end of a range."""

Amount = Annotated[float, Field(ge=0, le=_MAX_NUMBER, allow_inf_nan=False), BeforeValidator(number_of)]
"""A cost, a duration, or a margin."""

Count = Annotated[int, Field(ge=0, le=MAX_COUNT), BeforeValidator(number_of)]
