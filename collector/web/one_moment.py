"""Pages all of whose questions are answered as of one moment, over one cursor: opening one takes its time."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar, cast

from collector.api.base.context import Context

_Rest = ParamSpec("_Rest")
_Answer = TypeVar("_Answer")


def at_one_moment(endpoint: Callable[_Rest, _Answer]) -> Callable[_Rest, _Answer]:
    """A route that shows something and changes nothing, with its `here`."""

    @wraps(endpoint)
    def asked(*args: _Rest.args, **named: _Rest.kwargs) -> _Answer:
        with cast("Context", named["here"]).queries.at_one_moment():
            return endpoint(*args, **named)

    return asked
