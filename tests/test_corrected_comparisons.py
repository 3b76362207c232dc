"""Alerts and comparisons of releases corrected for the judge's errors: over HTTP and on pages."""

import datetime as dt
import random
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from storage.alerting.alerts import AlertFilter
from storage.review.annotations import AnnotationTarget, NewAnnotation
from tests.live import a_client, until
from tests.offline import Offline
from tests.paging import Visit
from tests.quality_history import DAY, PROJECT, History, Rule, a_history, drawn

pytestmark = pytest.mark.costly("collector/api", "collector/live", "collector/web", "rules/statistics", "storage")

PER_CELL = 12


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """Yield a server whose rule has an alert about its last release."""
    with a_history(tmp_path_factory.mktemp("corrected") / "data") as history:
        yield history


def vote(history: History, *, where: str = "rule = 'polite answers'", agrees: bool = True) -> None:
    """Let Ada vote on some passes and fails as the judge said, or against it on every other."""
    statement = f"""
        SELECT trace_id, passed FROM evaluations WHERE outcome = 'scored' AND {where}
        QUALIFY row_number() OVER (PARTITION BY passed ORDER BY trace_id) <= {PER_CELL} ORDER BY ALL"""
    with a_client() as client:
        rows = Offline(history.origin, client).sql(statement)
    annotations = [
        NewAnnotation(
            about=AnnotationTarget(tenant="", target="trace", project="shop", trace_id=trace_id),
            name="verdict",
            label="CORRECT" if passed is (agrees or number % 2 == 0) else "INCORRECT",
            source="person",
            author="Ada",
        )
        for number, (trace_id, passed) in enumerate(rows)
    ]
    history.running.store.annotations.add(annotations, now_us=1)


def test_what_is_left_of_an_alert_is_told_once_people_have_voted(history: History) -> None:
    """Without votes no correction is shown; a good judge's alert survives, with both releases' labels on each side."""
    compared = "/quality/compare?" + urlencode(
        {"rule": history.rule.key.rule_id, "project": "shop", "baseline": "1.4.1", "candidate": "1.5.0"}
    )
    with a_client() as client, Visit(history.origin) as visit:
        api = Offline(history.origin, client)
        assert api.ask("GET", f"alerts/{history.alert_id}")["corrected"] is None
        assert "for-people" not in visit.get(compared).text
        assert "judge no better than chance" not in visit.get("/quality").text
        assert "for-people" not in visit.get(f"/alerts/{history.alert_id}").text
        for release in ("1.4.1", "1.5.0"):
            vote(history, where=f"rule = 'polite answers' AND release = '{release}'")
        corrected = api.ask("GET", f"alerts/{history.alert_id}")["corrected"]
        assert corrected["survives"]
        assert corrected["difference"]["high"] < 0
        assert corrected["candidate"]["value"] < corrected["baseline"]["value"]
        for page in (compared, f"/alerts/{history.alert_id}"):
            text = visit.get(page).text
            assert 'id="for-people"' in text
            assert "It survives the correction" in text
        assert corrected["basis"] == "own_labels"
        vote(history, agrees=False)
        for release in ("1.4.1", "1.5.0"):
            vote(history, where=f"rule = 'polite answers' AND release = '{release}'", agrees=False)
        again = api.ask("GET", f"alerts/{history.alert_id}")["corrected"]
        assert again is None, "a judge that is right every other time is useless, and nothing is corrected by it"
        assert "judge no better than chance" in visit.get("/quality").text


def test_labels_count_for_the_service_whose_results_they_are_of(history: History) -> None:
    """Two services have releases of the same names: the labels of one are not labels of the other's releases."""
    rule = Rule(history.running, "kind answers")
    source, now = random.Random(11), dt.datetime.now(dt.UTC).replace(tzinfo=None)
    for release, level, ago in (("2.0", 0.7, 2), ("2.1", 0.4, 1)):
        for service in ("web", "api"):
            rule.come(drawn(source, 90, level, now - ago * DAY, release=release, service=service))
    for release in ("2.0", "2.1"):
        vote(history, where=f"rule = 'kind answers' AND service = 'api' AND release = '{release}'")
    compared = {"rule": rule.key.rule_id, "project": PROJECT, "baseline": "2.0", "candidate": "2.1"}
    with a_client() as client, Visit(history.origin) as visit:
        api = Offline(history.origin, client)
        for service, sentence in (("api", "people would find a difference, too"), ("web", "if the judge errs alike")):
            assert sentence in visit.get("/quality/compare?" + urlencode(compared | {"service": service})).text
        alerts = until(
            lambda: history.running.store.alerts.newest(AlertFilter(rule=rule.key.rule_id)),
            lambda rows: len(rows) == 2,
        )
        by_service = {
            each.finding.document["service"]: api.ask("GET", f"alerts/{each.alert_id}")["corrected"]["basis"]
            for each in alerts
        }
        assert by_service == {"api": "own_labels", "web": "shared_labels"}
