"""Numbers about the server as Prometheus reads them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from storage.timing import Times

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Meter:
    """One number, or one for each value of its labels. `read` may be called from any thread.

    Labels have values out of small sets that are known when the server starts, so that no sender makes more of them.
    """

    name: str  # with its unit, and `_total` where it only grows
    told: str
    read: Callable[[], float | Mapping[Labels, float] | Times]


def exposition(meters: Iterable[Meter]) -> str:
    """The numbers as they are now, in the text format of Prometheus."""
    return "".join(_family(meter) for meter in meters)


def _family(meter: Meter) -> str:
    found = meter.read()
    match found:
        case Times():
            kind, samples = "histogram", list(_of_times(meter.name, found))
        case Mapping():
            kind, samples = _kind(meter.name), [(meter.name, labels, value) for labels, value in sorted(found.items())]
        case _:
            kind, samples = _kind(meter.name), [(meter.name, (), found)]
    lines = [f"# HELP {meter.name} {meter.told}", f"# TYPE {meter.name} {kind}"]
    lines += [f"{name}{_labels(labels)} {value!r}" for name, labels, value in samples]
    return "\n".join(lines) + "\n"


def _kind(name: str) -> Literal["counter", "gauge"]:
    return "counter" if name.endswith("_total") else "gauge"


def _of_times(name: str, times: Times) -> Iterator[tuple[str, Labels, float]]:
    for bound_s, count in times.up_to:
        yield f"{name}_bucket", (("le", str(bound_s)),), count
    yield f"{name}_bucket", (("le", "+Inf"),), times.count
    yield f"{name}_sum", (), times.sum_s
    yield f"{name}_count", (), times.count


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inside}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
