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
"""What the operating system tells of this process, where it has /proc: elsewhere nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One number, or one for each value of its labels. `read` may be called from any thread.

    Labels have values out of small sets that are known when the server starts, so that no sender makes more of them.
    """

    name: str  # with its unit, and `_total` where it only grows
    told: str
    read: Callable[[], float | Mapping[Labels, float] | Times]


class Tally:
    """Counts by the values of some labels. Added to on the event loop only, read from any thread."""

    def __init__(self, *labels: str) -> None:
        self._labels = labels
        self._counts: Counter[tuple[str, ...]] = Counter()

    def add(self, *values: str, count: int = 1) -> None:
        """Count more under these values, one for each label in order."""
        self._counts[values] += count

    def read(self) -> Mapping[Labels, float]:
        """What was counted so far, as a meter reads it."""
        return {tuple(zip(self._labels, values, strict=True)): n for values, n in dict(self._counts).items()}


def exposition(meters: Iterable[Meter]) -> bytes:
    """The numbers as they are now, and those of the process, in the text format of Prometheus."""
    return generate_latest(_Families(meters))


class _Families(Collector):
    """Meters as the client library takes them."""

    def __init__(self, meters: Iterable[Meter]) -> None:
        self._meters = meters

    def collect(self) -> Iterator[Metric]:
        yield from map(_family, self._meters)
        yield from _PROCESS.collect()


def _family(meter: Meter) -> Metric:
    found = meter.read()
    if isinstance(found, Times):
        buckets = [(str(bound_s), float(count)) for bound_s, count in found.up_to]
        return HistogramMetricFamily(
            meter.name, meter.told, buckets=[*buckets, ("+Inf", found.count)], sum_value=found.sum_s
        )
    name = meter.name.removesuffix("_total")
    family = Metric(name, meter.told, "gauge" if name == meter.name else "counter")
    for labels, value in sorted(found.items()) if isinstance(found, Mapping) else [((), found)]:
        family.add_sample(meter.name, dict(labels), value)
    return family


OTHER: Final = "other"
"""What has no route, and methods that no route has, so that whoever asks makes no new labels."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"})


class Traffic:
    """Counts since the start. Added to on the event loop only, read from any thread."""

    def __init__(self) -> None:
        self.http = Tally("method", "route", "status")
        self.grpc = Tally("method", "code")
        self.undecoded_requests = Tally("protocol", "reason")
        self.undecoded_bytes = Tally("protocol", "reason")
        for protocol in ("http", "grpc"):  # so that the first of them is an increase, which alerts look for
            self.not_decoded(protocol, "overloaded", 0, requests=0)

    def answered(self, method: str, route: str | None, status: int) -> None:
        """Count an answer over HTTP; `route` is a template, as `/api/v1/traces/{trace_id}`."""
        self.http.add(method if method in _METHODS else OTHER, route or OTHER, str(status))

    def called(self, method: str, code: str) -> None:
        """Count an answer over gRPC, by the name of its code."""
        self.grpc.add(method, code)

    def not_decoded(self, protocol: str, reason: str, nbytes: int, *, requests: int = 1) -> None:
        """Count an export request that was turned away before anybody could count its spans.

        `nbytes` is how much of its body had come by then, as it was sent.
        """
        self.undecoded_requests.add(protocol, reason, count=requests)
        self.undecoded_bytes.add(protocol, reason, count=nbytes)
