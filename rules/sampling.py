"""Which traces a rule looks at: decided by the trace id alone, so that all rules look at the same ones."""

import hashlib
import math
from typing import Final

_DIGITS: Final = 13  # hex digits of the hash, as many bits as a double's fraction, so that a rate is exact
_EVERY: Final = "g"  # above every hex digit


def bound(rate: float) -> str:
    """What the hash of a trace id must be below, as text. A greater rate has a greater bound.

    `rate` is from 0 to 1.
    """
    below = math.ceil(rate * 16**_DIGITS)
    return _EVERY if below >= 16**_DIGITS else f"{below:0{_DIGITS}x}"


def is_sampled(trace_id: str, rate: float) -> bool:
    """Whether a trace is looked at. One that is in at a rate is in at every greater one."""
    return hashlib.sha256(trace_id.encode()).hexdigest()[:_DIGITS] < bound(rate)


def sampled_sql(trace_id: str, bound_parameter: str) -> str:
    """Whether a trace is looked at, in SQL, of a trace id's expression and the parameter that holds `bound`."""
    return f"left(sha256({trace_id}), {_DIGITS}) < {bound_parameter}::VARCHAR"
