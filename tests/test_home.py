"""Home: the results in its pass rates, those left out, and the page without traces."""

import re
import time
from pathlib import Path

from collector.web.home import PERIODS, rule_lines
from storage.query.overview import RuleSums
from tests.access import request
from tests.alerting import a_finding
from tests.offline import an_offline_server
from tests.paging import Visit
from tests.serving import a_server, an_export, post
from tests.test_daily_tasks import now


def sums(fingerprint: str, *, passed: int = 0, not_passed: int = 0, last_us: int = 0) -> RuleSums:
    """Return the sums of one evaluator of the only rule."""
    return RuleSums(
        rule_id="r", rule="tool errors", project="shop", fingerprint=fingerprint, passed=passed, not_passed=not_passed,
        broken=0, skipped=1, passed_before=0, not_passed_before=0, last_us=last_us,
    )  # fmt: skip


def test_a_rate_is_that_of_the_latest_evaluator_with_scores_and_others_are_counted() -> None:
    """An evaluator that only skipped hides no rate, and failures that a rate leaves out stand beside it."""
    rows = [sums("skips", last_us=3), sums("new", passed=3, not_passed=1, last_us=2), sums("old", not_passed=20)]
    (line,) = rule_lines(rows, PERIODS["day"])
    assert (line.sums.fingerprint, line.other_results, line.other_failures) == ("new", 20, 20)


def test_runs_are_shown_with_and_without_traces(tmp_path: Path) -> None:
    """Home lists the latest runs of all projects or of one with their pass rates, with or without traces."""
    with an_offline_server(tmp_path / "data") as api:
        assert "Latest runs" not in api.answer("GET", "../../").text
        runs = {project: api.begin(project, experimentName=f"about {project}") for project in ("shop", "farm")}
        for run in runs.values():
            api.report(run, {"itemKey": "a", "evalResults": [{"name": "exact", "score": 1}]})
            api.end(run)
        home, farm = (api.answer("GET", f"../../{question}").text for question in ("", "?project=farm"))
        for run in runs.values():
            assert f'href="/runs/{run}"' in home
        assert home.count("100.0 %") == 2
        assert (runs["shop"] in farm, runs["farm"] in farm) == (False, True)
        assert api.running is not None
        export = now(an_export("0c" * 16, "any"))
        post(f"http://{api.running.otlp_http}/v1/traces", export.SerializeToString())
        api.running.store.wait_committed(60)
        home = api.answer("GET", "../../").text
        assert "Where it fails" in home
        assert all(f'href="/runs/{run}"' in home for run in runs.values())


def test_open_alerts_are_counted_as_their_list_has_them(tmp_path: Path) -> None:
    """The number is that of open alerts, and says if there are more; acknowledged ones stand beside it."""
    with a_server(tmp_path / "data") as server, Visit(f"http://{server.http}") as visit:
        export = now(an_export("0c" * 16, "any"))
        post(f"http://{server.otlp_http}/v1/traces", export.SerializeToString())
        server.store.wait_committed(60)
        findings = [a_finding(number) for number in range(23)]
        for finding in findings:
            server.store.alerts.open(finding, time.time_ns())
        assert re.search(r'state=open">20\+</a></dd>', visit.get("/").text)
        for finding in findings[:5]:
            request(f"http://{server.http}/api/v1/alerts/{finding.alert_id}/acknowledge", "POST")
        assert re.search(r'state=open">18</a><small>and 5 acknowledged</small>', visit.get("/").text)
