"""Alerts and comparisons of releases with the judge's errors taken out: over HTTP and on pages."""

from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

from storage.review.annotations import AnnotationTarget, NewAnnotation
from tests.live import a_client
from tests.offline import Offline
from tests.paging import Visit
from tests.quality_history import History, a_history

PER_CELL = 12


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[History]:
    """A server whose rule has an alert about its last release."""
    with a_history(tmp_path_factory.mktemp("corrected") / "data") as history:
        yield history


def vote(history: History, *, release: str | None, agrees: bool) -> None:
    """Let Ada vote on some passes and fails as the judge said, or against it on every other."""
    where = "" if release is None else f"AND release = '{release}'"
    statement = f"""
        SELECT trace_id, passed FROM evaluations WHERE rule = 'polite answers' AND outcome = 'scored' {where}
        QUALIFY row_number() OVER (PARTITION BY passed ORDER BY trace_id) <= {PER_CELL} ORDER BY ALL"""
    with a_client() as client:
        rows = Offline(history.origin, client).sql(statement)
    said = [
        NewAnnotation(
            about=AnnotationTarget(tenant="", target="trace", project="shop", trace_id=trace_id),
            name="verdict",
            label="CORRECT" if passed is (agrees or number % 2 == 0) else "INCORRECT",
            source="person",
            author="Ada",
        )
        for number, (trace_id, passed) in enumerate(rows)
    ]
    history.running.store.annotations.add(said, now_us=1)


def test_what_is_left_of_an_alert_is_told_once_people_have_voted(history: History) -> None:
    """Before a vote nothing is told; a good judge's alert survives, with the labels of both releases on both sides."""
    compared = "/quality/compare?" + urlencode(
        {"rule": history.rule.key.rule_id, "project": "shop", "baseline": "1.4.1", "candidate": "1.5.0"}
    )
    with a_client() as client, Visit(history.origin) as visit:
        api = Offline(history.origin, client)
        assert api.ask("GET", f"alerts/{history.alert_id}")["corrected"] is None
        assert "for-people" not in visit.get(compared).text
        assert "useless judge" not in visit.get("/quality").text
        assert "for-people" not in visit.get(f"/alerts/{history.alert_id}").text
        for release in ("1.4.1", "1.5.0"):
            vote(history, release=release, agrees=True)
        found = api.ask("GET", f"alerts/{history.alert_id}")["corrected"]
        assert found["survives"]
        assert found["difference"]["high"] < 0
        assert found["candidate"]["value"] < found["baseline"]["value"]
        for page in (compared, f"/alerts/{history.alert_id}"):
            text = visit.get(page).text
            assert 'id="for-people"' in text
            assert "It survives the correction" in text
        assert found["basis"] == "own_labels"
        vote(history, release=None, agrees=False)
        vote(history, release="1.4.1", agrees=False)
        vote(history, release="1.5.0", agrees=False)
        again = api.ask("GET", f"alerts/{history.alert_id}")["corrected"]
        assert again is None, "a judge that is right every other time is useless, and nothing is corrected by it"
        assert "useless judge" in visit.get("/quality").text
