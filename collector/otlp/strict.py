"""The exact but slow way: a request taken apart with the ordinary protobuf classes, one span or log at a time."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from collector.otlp import wire
from collector.otlp.faults import Fault, Malformed
from collector.otlp.signals import Signal
from collector.otlp.values import Unfit


@dataclass(frozen=True, slots=True, kw_only=True)
class Sifted:
    """A request without the spans or log records that cannot be decoded."""

    body: bytes
    rejected: int
    faults: tuple[Fault, ...]
    kept: list[int]  # the numbers that those in `body` had in the request, from 1


def sift(body: bytes, signal: Signal) -> Sifted:
    """Take out the spans or log records that cannot be decoded.

    What protobuf refuses goes first, which is cheap to see. Only where the columnar decoder refuses what is
    left, which hardly occurs, each is tried in it by itself, at a hundred times the cost.

    Raises:
        Malformed: the request is broken outside of them.
    """
    envelope: Any = wire.Envelope()
    try:
        envelope.ParseFromString(body)
    except DecodeError as error:
        what = str(error).rpartition(": ")[2]
        raise Malformed(f"not an {signal.request.DESCRIPTOR.name} in protobuf: {what}") from error

    def parsed(message: bytes) -> bytes:
        """The message as protobuf understands it: what it holds twice is merged, or the last of it counts."""
        return signal.element.FromString(message).SerializeToString()

    def decoded(message: bytes) -> bytes:
        """The message as it is, if it can be decoded as columns."""
        signal.check([message])
        return message

    refused: dict[int, str] = {}
    kept = _sort_out(envelope, parsed, None, refused)
    if not _decodes(envelope, signal):
        kept = _sort_out(envelope, decoded, kept, refused)
    return Sifted(body=envelope.SerializeToString(), rejected=len(refused), faults=_faults(refused, signal), kept=kept)


def _faults(refused: dict[int, str], signal: Signal) -> tuple[Fault, ...]:
    """One fault for all: what is wrong with the first of them is told, so that a reply stays short."""
    if not refused:
        return ()
    first = min(refused)
    reason = f"it cannot be decoded: {refused[first]}"
    return (Fault(reason=reason, noun=signal.noun, count=len(refused), first=first),)


def _sort_out(
    envelope: Any,  # noqa: ANN401 - made at run time
    check: Callable[[bytes], bytes],
    numbers: list[int] | None,
    refused: dict[int, str],
) -> list[int]:
    """Leave in the envelope what `check` makes of each message; the numbers of those that it does not refuse."""
    passed: list[int] = []
    position = 0
    for resource_spans in envelope.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            kept = []
            for message in scope_spans.spans:
                number = numbers[position] if numbers else position + 1
                position += 1
                try:
                    kept.append(check(message))
                    passed.append(number)
                except (DecodeError, ValueError, Unfit) as error:
                    refused[number] = str(error)
            del scope_spans.spans[:]
            scope_spans.spans.extend(kept)
    return passed


def _decodes(envelope: Any, signal: Signal) -> bool:  # noqa: ANN401 - made at run time
    scopes = (scope for resource in envelope.resource_spans for scope in resource.scope_spans)
    try:
        signal.check([message for scope in scopes for message in scope.spans])
    except (ValueError, Unfit):
        return False
    return True
