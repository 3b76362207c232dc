"""Numbers about the server as Prometheus reads them; the only module that knows the client library of Prometheus."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from prometheus_client import ProcessCollector, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from storage.timing import Times

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels: TypeAlias = tuple[tuple[str, str], ...]

_PROCESS: Final = ProcessCollector(registry=None)
"""Metrics of this process by the operating system, from /proc; elsewhere none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """A number, or one for each value of its labels. `read` is thread-safe.

    Label values come from small sets that are known at the start, so that senders cannot create new time series.
    """

    name: str  # with its unit, and with `_total` if the value only grows
    text: str
    read: Callable[[], float | Mapping[Labels, float] | Times]


class Tally:
    """Counts by the values of some labels. Written on the event loop, read from any thread."""

    def __init__(self, *labels: str) -> None:
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, *values: str, count: int = 1) -> None:
        """Count more under these values, one for each label in order."""
        self._counts[values] += count

    def read(self) -> Mapping[Labels, float]:
        """Return the counts so far, as a meter reads them."""
        return {tuple(zip(self._labels, values, strict=True)): n for values, n in dict(self._counts).items()}


def exposition(meters: Iterable[Meter]) -> bytes:
    """Render the current numbers, and those of the process, in the text format of Prometheus."""
    return generate_latest(_Families(meters))


class _Families(Collector):
    """Collector of meters for the client library."""

    def __init__(self, meters: Iterable[Meter]) -> None:
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        yield from map(_family, self._meters)
        yield from _PROCESS.collect()


def _family(meter: Meter) -> Metric:
    reading = meter.read()
    if isinstance(reading, Times):
        buckets = [(str(bound_s), float(count)) for bound_s, count in reading.up_to]
        return HistogramMetricFamily(
            meter.name, meter.text, buckets=[*buckets, ("+Inf", reading.count)], sum_value=reading.sum_s
        )
    name = meter.name.removesuffix("_total")
    family = Metric(name, meter.text, "gauge" if name == meter.name else "counter")
    for labels, value in sorted(reading.items()) if isinstance(reading, Mapping) else [((), reading)]:
        family.add_sample(meter.name, dict(labels), value)
    return family


OTHER: Final = "other"
"""Label for unknown routes and methods, so that clients cannot make new labels."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Traffic:
    """Counts since the start. Written on the event loop, read from any thread."""

    def __init__(self) -> None:
        self.http = Tally("method", "route", "status")
        self.grpc = Tally("method", "code")
        self.undecoded_requests = Tally("protocol", "reason")
        self.undecoded_bytes = Tally("protocol", "reason")
        for protocol in ("http", "grpc"):  # so that the first refusal is an increase, which alerts check for
            self.not_decoded(protocol, "overloaded", 0, requests=0)

    def answered(self, method: str, route: str | None, status: int) -> None:
        """Count an answer over HTTP; `route` is a template, as `/api/v1/traces/{trace_id}`."""
        self.http.add(method if method in _METHODS else OTHER, route or OTHER, str(status))

    def called(self, method: str, code: str) -> None:
        """Count an answer over gRPC, by the name of its code."""
        self.grpc.add(method, code)

    def not_decoded(self, protocol: str, reason: str, nbytes: int, *, requests: int = 1) -> None:
        """Count an export request that was refused before its spans could be counted.

        `nbytes` is how much of its body had arrived by then, as it was sent.
        """
        self.undecoded_requests.add(protocol, reason, count=requests)
        self.undecoded_bytes.add(protocol, reason, count=nbytes)
