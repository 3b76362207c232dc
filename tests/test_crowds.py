"""Small requests of very many parts: the cost of decoding them is counted, because counts are exact."""

import sys
from dataclasses import replace
from types import FrameType
from typing import Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.crowds import Crowd, crowds, field
from collector.otlp import dimensions, strict
from collector.otlp.decode import Receipt, Request, decode
from collector.otlp.faults import Malformed
from collector.otlp.signals import LOGS, TRACES, Signal
from collector.otlp.values import NotColumnar
from tests.storing import RECEIVED_AT_US

pytestmark = pytest.mark.costly("collector/conventions", "collector/otlp", "storage/ingest")

CROWDS = list(crowds())  # those of values in values take minutes, and are left to the mixtures
FEW, MANY = 40, 240
MOST_CALLS = 4_000
"""Calls of one decode. It makes 300 to 2,300: some 70 for each place with attributes, and for each level of nesting."""

CALLS_OF_A_LOG_RECORD = 3  # each that is kept is hashed
CALLS_WHERE_PROTOBUF_DECIDES = 40  # of each span or log record of a request that the columns refuse


@pytest.fixture(autouse=True)
def _nothing_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    # The same request is to cost the same each time.
    monkeypatch.setattr(dimensions, "_REMEMBERED_BYTES", -1)


class Calls:
    """A count of the calls of Python's and C's functions in a `with` block."""

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Self:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, _frame: FrameType, event: str, _what: object) -> None:
        self.count += event in {"call", "c_call"}


def cost(signal: Signal, body: bytes) -> tuple[int, Receipt | Exception]:
    """Count the calls that decoding takes; return them with the result."""
    with Calls() as calls:
        (outcome,) = decode([Request(body=body, signal=signal)], received_at_us=RECEIVED_AT_US).outcomes
    return calls.count, outcome


@pytest.mark.parametrize("signal", [TRACES, LOGS], ids=["traces", "logs"])
def test_the_calls_of_a_decode_do_not_grow_with_what_is_repeated(signal: Signal) -> None:
    """Whichever field a request repeats, six times as many take no call more, except for hashes of log records."""
    grown = {}
    for crowd in CROWDS:
        if crowd.signal is signal and not crowd.is_nested:
            (few, _), (many, outcome) = cost(signal, crowd.body(FEW)), cost(signal, crowd.body(MANY))
            kept = outcome.accepted if isinstance(outcome, Receipt) and signal is LOGS else 0
            if many > few + CALLS_OF_A_LOG_RECORD * kept + 20:
                grown[crowd.name] = (few, many)
    assert not grown


@pytest.mark.property
@given(
    st.sampled_from([TRACES, LOGS]).flatmap(
        lambda signal: st.lists(
            st.tuples(st.sampled_from([crowd for crowd in CROWDS if crowd.signal is signal]), st.integers(0, MANY)),
            min_size=1,
            max_size=3,
        )
    )
)
def test_no_mixture_takes_more_calls_than_there_are_kinds_of_columns(mixture: list[tuple[Crowd, int]]) -> None:
    """Crowds may be mixed at will: the calls stay below a number that does not depend on how many parts there are."""
    signal = mixture[0][0].signal
    calls, outcome = cost(signal, b"".join(crowd.body(count) for crowd, count in mixture))
    assert isinstance(outcome, Receipt | Malformed)
    elements = outcome.accepted + outcome.rejected if isinstance(outcome, Receipt) else sum(n for _, n in mixture)
    if signal is LOGS:
        assert calls <= MOST_CALLS + CALLS_WHERE_PROTOBUF_DECIDES * elements
    else:
        assert calls <= MOST_CALLS


def test_a_large_request_of_nothing_is_a_request() -> None:
    """A request of more than a piece whose fields are all unknown holds nothing, and is not a failure."""
    (unknown,) = (crowd for crowd in CROWDS if crowd.name == "resource_spans.(unknown) x n")
    assert cost(TRACES, b"\xc0\x3e\x01" * 400_000)[1] == Receipt(accepted=0, rejected=0)
    assert cost(TRACES, unknown.body(400_000))[1] == Receipt(accepted=0, rejected=0)


def a_span(number: int, more: bytes = b"") -> bytes:
    """Build a valid span of which some bytes more are read."""
    return field(2, field(1, b"%016d" % (number + 1)) + field(2, b"%08d" % (number + 1)) + more)


def deep(levels: int) -> bytes:
    """Return an attribute whose value is nested `levels` levels deep."""
    value = field(1, b"x")
    for _ in range(levels):
        value = field(5, field(1, value))
    return field(9, field(1, b"k") + field(2, value))


ODD = {
    "no UTF-8": field(5, b"\xff"),
    "two kinds": field(9, field(1, b"k") + field(2, field(1, b"x") + b"\x18\x01")),
    "a group": b"\xc3\x3e\xc4\x3e",
} | {f"{levels} levels": deep(levels) for levels in range(46, 53)}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("every", [True, False], ids=["all", "one"])
def test_spans_that_columns_refuse_cost_a_few_calls_each(odd: str, every: bool) -> None:  # noqa: FBT001
    """Whether one span of a request or each of them is odd, none is tried by itself."""

    def body(count: int) -> bytes:
        spans = (a_span(number, ODD[odd] if every or not number else b"") for number in range(count))
        return field(1, field(2, b"".join(spans)))

    (few, _), (many, outcome) = cost(TRACES, body(FEW)), cost(TRACES, body(MANY))
    assert isinstance(outcome, Receipt)
    assert outcome.rejected in ({0, MANY} if every else {0, 1})
    assert many - few <= 12 * (MANY - FEW)


@pytest.mark.parametrize("odd", [{5}, {0, 17, 39}, set(range(40))])
def test_what_only_columns_refuse_is_found_in_a_bounded_number_of_trials(odd: set[int]) -> None:
    """A few are rejected alone; of very many some of their neighbours may be rejected with them."""
    trials = 0

    def refuses(messages: list[bytes]) -> None:
        nonlocal trials
        trials += 1
        if any(b"odd" in message for message in messages):
            raise NotColumnar("odd")

    spans = b"".join(a_span(number, field(5, b"odd" if number in odd else b"even")) for number in range(40))
    sifted = strict.sift(field(1, field(2, spans)), replace(TRACES, check=refuses))
    assert sifted.rejected == len(odd)
    assert sifted.kept == [number + 1 for number in range(40) if number not in odd]
    assert trials <= 2 * (strict._MOST_TRIALS + 1) + 1
