"""Fields of a resource are listed once: where clients' documents are declared."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import structs

from benchmarks.size import listings
from collector.api.responses import alerting, judging, offline, reviewing, saved_views
from collector.api.responses.wire import WireDocument

KNOWN: Final = tomllib.loads(Path(__file__).with_name("listings.toml").read_text(encoding="utf-8"))
"""Present listings of each resource. One more fails, and so does an entry that is none any more."""

RESOURCES: Final[dict[str, tuple[type, ...]]] = {
    "alert": (alerting.AlertDocument, alerting.AlertDetail),
    "connection": (judging.ConnectionDocument,),
    "dataset": (offline.DatasetDocument, offline.DatasetDetail),
    "metric_monitor": (alerting.MetricMonitorDocument,),
    "mute": (alerting.MuteDocument,),
    "queue": (reviewing.ReviewQueueDocument,),
    "rule": (judging.RuleDocument, judging.ActiveRuleDocument),
    "run": (offline.RunDocument, offline.RunDetail, offline.RunWithEvaluators),
    "view": (saved_views.SavedViewDocument,),
    "webhook": (alerting.WebhookDocument,),
}


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)


def _fields(*documents: Any) -> set[str]:
    names: set[str] = set()
    for each in documents:
        names |= (
            {field.name for field in structs.fields(each)} if issubclass(each, WireDocument) else set(each.model_fields)
        )
    return names


@pytest.mark.parametrize("resource", RESOURCES)
def test_the_fields_of_a_resource_are_listed_nowhere_else(resource: str) -> None:
    """No further class, dictionary, call or sequence lists three fields that only this resource has."""
    own = RESOURCES[resource]
    declared = [each for each in _below(WireDocument) if each.__module__.startswith("collector.api.")]
    others = [each for each in declared if not issubclass(each, own) and not issubclass(own[0], each)]
    declarations = {base.__name__ for each in own for base in each.__mro__}
    places = listings(_fields(*own) - _fields(*others))
    assert sorted(each for each in places if each.split()[1] not in declarations) == KNOWN.get(resource, [])
