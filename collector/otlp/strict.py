"""The exact but slow way: a request taken apart with the ordinary protobuf classes, one span or log at a time."""

import itertools
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from collector.otlp import wire
from collector.otlp.faults import Fault, Malformed
from collector.otlp.signals import Signal
from collector.otlp.values import NotColumnar

_MOST_TRIALS = 32
"""Limit of the trials for one request: to find one element among 30,000 takes 15. A guess."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """A request without the spans or log records that cannot be decoded."""

    body: bytes
    rejected: int = 0
    faults: tuple[Fault, ...] = ()
    kept: Sequence[int] = ()  # original numbers, from 1, of what is in `body`, if some were rejected


def sift(body: bytes, signal: Signal) -> Sifted:
    """Remove the spans or log records that cannot be decoded.

    Those that protobuf refuses are removed first, which is cheap. If the columnar decoder refuses the rest, which no
    known request causes, those that it refuses are found by bisection, in a bounded number of trials.

    Raises:
        Malformed: the request is broken outside of its spans or log records.
    """
    envelope: Any = wire.Envelope()
    try:
        envelope.ParseFromString(body)
    except DecodeError as error:
        what = str(error).rpartition(": ")[2]
        raise Malformed(f"not an {signal.request.DESCRIPTOR.name} in protobuf: {what}") from error

    def parsed(message: bytes) -> bytes:
        """Return the message as protobuf understands it: duplicate fields are merged, or the last of them counts."""
        return signal.element.FromString(message).SerializeToString()

    refused: dict[int, str] = {}
    kept = _sort_out(envelope, parsed, refused)
    unfit = _unfit(_messages(envelope), signal, itertools.count())
    if unfit:
        numbers = dict(zip(kept, itertools.count(), strict=False))
        refused |= {number: unfit[place] for number, place in numbers.items() if place in unfit}
        kept = [number for number, place in numbers.items() if place not in unfit]
        _leave_out(envelope, unfit)
    return Sifted(body=envelope.SerializeToString(), rejected=len(refused), faults=_faults(refused, signal), kept=kept)


def _faults(refused: Mapping[int, str], signal: Signal) -> tuple[Fault, ...]:
    """Return one fault for all, with the reason of the first, so that a reply stays short."""
    if not refused:
        return ()
    first = min(refused)
    reason = f"it cannot be decoded: {refused[first]}"
    return (Fault(reason=reason, noun=signal.noun, count=len(refused), first=first),)


def _sort_out(
    envelope: Any,  # noqa: ANN401 - made at run time
    check: Callable[[bytes], bytes],
    refused: dict[int, str],
) -> list[int]:
    """Replace messages by the result of `check`, without those that it refuses; return the numbers of the others."""
    passed: list[int] = []
    number = 0
    for scope_spans in _scopes(envelope):
        kept = []
        for message in scope_spans.spans:
            number += 1
            try:
                kept.append(check(message))
                passed.append(number)
            except DecodeError as error:
                refused[number] = str(error)
        del scope_spans.spans[:]
        scope_spans.spans.extend(kept)
    return passed


def _unfit(messages: list[bytes], signal: Signal, trials: "itertools.count[int]", first: int = 0) -> dict[int, str]:
    """Return the reason for each message that the columnar decoder refuses, by its position.

    Once the trials are used up, messages that are refused together are all refused.
    """
    try:
        signal.check(messages)
    except (ValueError, NotColumnar) as error:
        if len(messages) == 1 or next(trials) >= _MOST_TRIALS:
            return dict.fromkeys(range(first, first + len(messages)), str(error))
    else:
        return {}
    half = len(messages) // 2
    return _unfit(messages[:half], signal, trials, first) | _unfit(messages[half:], signal, trials, first + half)


def _leave_out(envelope: Any, places: Container[int]) -> None:  # noqa: ANN401 - made at run time
    place = itertools.count()
    for scope_spans in _scopes(envelope):
        kept = [message for message in scope_spans.spans if next(place) not in places]
        del scope_spans.spans[:]
        scope_spans.spans.extend(kept)


def _messages(envelope: Any) -> list[bytes]:  # noqa: ANN401 - made at run time
    return [message for scope_spans in _scopes(envelope) for message in scope_spans.spans]


def _scopes(envelope: Any) -> Iterator[Any]:  # noqa: ANN401 - made at run time
    return (scope_spans for resource_spans in envelope.resource_spans for scope_spans in resource_spans.scope_spans)
