"""Runs as files: the seeds' keys, nothing lost of trials, and nothing in them that runs."""

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from collector.cli.main import main
from collector.experiments.exports import REPORT_FORMS
from collector.gating.results import results_of
from rules.statistics.runs.records import FAILED, MISSING, SCORED, SKIPPED
from tests.browser import a_page
from tests.offline import Offline, an_offline_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("offline")

HOSTILE = "<script>document.title='owned'</script><img src=https://evil.example/x onerror=alert(1)>\u202e|`]]>\x00"
RUBRIC = {"name": "Answer Quality", "threshold": 0.8, "fingerprint": "f1"}


@pytest.fixture(name="api", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("exports") / "data") as server:
        yield server


@pytest.fixture(name="run", scope="module")
def a_run(api: Offline) -> str:
    """Build a run with a case for each outcome, one of them hostile."""
    run = api.begin(metadata={"model": "m1"}, name="nightly", description=HOSTILE)
    api.report(
        run,
        a_case("refund", scored(0.45, reason="Claim not supported"), actualOutputs={"output": "60 days"}, costUsd=0.25),
        a_case("price", scored(0.9), {"name": "exact", "success": True, "score": 1}, latencyMs=250),
        a_case("crash", error="boom", errorKind="TimeoutError", actualOutputs={}),
        a_case("dumb", RUBRIC | {"outcome": "failed", "error": "the judge said nothing"}),
        a_case("silent", RUBRIC | {"outcome": "skipped"}),
        a_case("evil", scored(0.1, reason=HOSTILE), inputs={"input": f"=cmd|'{HOSTILE}"}, actualOutputs={HOSTILE: 1}),
    )
    api.end(run)
    return run


def scored(score: float, **more: Any) -> dict[str, Any]:
    """Return a score of the rubric."""
    return RUBRIC | {"score": score} | more


def a_case(key: str, *scores: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Build an item as it is reported."""
    return {
        "datasetItemId": key,
        "inputs": {"input": f"about {key}?"},
        "expectedOutputs": {"output": "30 days"},
        "actualOutputs": {"output": "30 days"},
        "evalResults": [*scores],
    } | more


def exported(api: Offline, run: str, form: str) -> str:
    """Return a run as a file."""
    answer = api.answer("GET", f"runs/{run}/export?format={form}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment; ")
    assert answer.headers["content-type"].startswith(REPORT_FORMS[form].media_type.partition(";")[0])  # type: ignore[index] # a form
    return answer.text


def test_json_has_the_keys_of_the_seeds(api: Offline, run: str) -> None:
    """The document begins with the seeds' keys in their order, and items and evaluations do so too."""
    document = json.loads(exported(api, run, "json"))
    assert list(document)[:7] == [
        "version",
        "experimentName",
        "timestamp",
        "description",
        "metadata",
        "config",
        "summary",
    ]
    assert (document["version"], document["experimentName"], document["metadata"]) == (1, "qa", {"model": "m1"})
    assert document["timestamp"].endswith("Z")
    assert (document["config"], document["description"], document["run"]["name"]) == ({"runs": 1}, HOSTILE, "nightly")
    summary = document["summary"]
    assert {key: summary[key] for key in ("totalExamples", "passCount", "failCount", "passRate", "runCount")} == {
        "totalExamples": 6,
        "passCount": 1,
        "failCount": 2,
        "passRate": 0.333333,
        "runCount": 1,
    }
    assert [summary[key] for key in ("errorCount", "notEvaluatedCount", "unjudgedCount")] == [1, 1, 1]
    assert summary["evaluators"]["Answer Quality"] == {
        "averageScore": 0.483333,
        "stdDev": 0.0,
        "passRate": 0.333333,
        "failedCount": 1,
        "skippedCount": 1,
    }
    refund = document["items"][0]
    assert list(refund)[:6] == ["id", "input", "expectedOutput", "actualOutput", "success", "evaluations"]
    assert refund["actualOutput"] == {"output": "60 days"}
    assert refund["evaluations"] == [
        {
            "evaluator": "Answer Quality",
            "averageScore": 0.45,
            "score": 0.45,
            "threshold": 0.8,
            "success": False,
            "reason": "Claim not supported",
            "fingerprint": "f1",
        }
    ]
    assert [item["outcome"] for item in document["items"]] == [
        "not_passed",
        "passed",
        "error",
        "not_evaluated",
        "unjudged",
        "not_passed",
    ]
    assert [item["evaluations"][0].get("outcome") for item in document["items"][3:5]] == ["failed", "skipped"]
    assert [item["success"] for item in document["items"]] == [False, True, None, None, None, False]
    assert [item["evaluations"][0]["success"] for item in document["items"][3:5]] == [None, None]


def test_json_is_what_the_gate_reads(api: Offline, run: str) -> None:
    """Scores, failures and skips reach the gate unchanged."""
    results = results_of(json.loads(exported(api, run, "json")), "auto", "run")
    assert results.pairing == "dataset_item_id"
    at = [each.name for each in results.run.evaluators].index("Answer Quality")
    assert results.run.outcomes[at, :, 0].tolist() == [SCORED, SCORED, MISSING, FAILED, SKIPPED, SCORED]
    assert results.run.scores[at, 0, 0] == 0.45


def test_trials_are_folded_and_none_is_lost(api: Offline) -> None:
    """A case passes if all of its trials do; means are over the trials, whatever the order in which these came."""
    run = api.begin(trials=3)
    for trial, scores in ((2, (0.87, 0.2)), (1, (0.82, 0.9)), (3, (0.86, 0.9))):
        api.report(run, *(a_case(key, scored(score), trial=trial) for key, score in zip("ab", scores, strict=True)))
    api.end(run)
    document = json.loads(exported(api, run, "json"))
    assert document["config"] == {"runs": 3}
    assert (document["summary"]["totalExamples"], document["summary"]["passCount"]) == (2, 1.666667)
    assert (document["summary"]["failCount"], document["summary"]["passRate"]) == (0.333333, 0.833333)
    first, second = document["items"]
    evaluation = first["evaluations"][0]
    assert (evaluation["scores"], evaluation["averageScore"]) == ([0.82, 0.87, 0.86], 0.85)
    assert (evaluation["stdDev"], evaluation["success"], "score" in evaluation) == (0.026458, True, False)
    assert (first["success"], second["success"], second["evaluations"][0]["success"]) == (True, False, False)
    rows = list(csv.DictReader(io.StringIO(exported(api, run, "csv"))))
    assert [(row["trial"], row["answer_quality_score"]) for row in rows[:3]] == [
        ("1", "0.82"),
        ("2", "0.87"),
        ("3", "0.86"),
    ]
    suite = ET.fromstring(exported(api, run, "junit"))  # noqa: S314 - our own
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert "2 of 3 trials passed" in (suite.findtext("testcase/failure") or "")


def test_csv_has_the_columns_of_dokimos_and_the_reasons(api: Offline, run: str) -> None:
    """Columns follow from the evaluators, errors and reasons last; what a spreadsheet would compute is a text there."""
    content = exported(api, run, "csv")
    assert content.splitlines()[0] == (
        "input,expected_output,actual_output,success,answer_quality_score,answer_quality_pass,exact_score,exact_pass,"
        "error,answer_quality_reason,exact_reason"
    )
    rows = list(csv.reader(io.StringIO(content)))
    assert rows[1][:8] == ["about refund?", "30 days", "60 days", "false", "0.45", "false", "", ""]
    assert rows[1][8:] == ["", "Claim not supported", ""]
    assert rows[2][:8] == ["about price?", "30 days", "30 days", "true", "0.9", "true", "1", "true"]
    assert (rows[3][8], rows[4][9]) == ("boom", "the judge said nothing")
    assert [row[3] for row in rows[3:6]] == ["", "", ""]  # an error, a failed and a skipped evaluation
    assert rows[6][0].startswith("'=cmd|")


def test_markdown_tells_what_failed(api: Offline, run: str) -> None:
    """It begins as the seeds say, and what an application said is not markup in it."""
    content = exported(api, run, "markdown")
    lines = content.splitlines()
    assert lines[0] == "# Experiment: qa"
    assert lines[3] == "**Pass Rate:** 33.3% (1 of 3 judged, 1 with an error, 1 without a verdict, 1 not judged)"
    assert "| Answer Quality | 0.48 | 0.00 | 33.3% | 1 | 1 |" in lines
    assert "### about refund?" in lines
    assert "**Answer Quality:** 0.45 (FAIL): Claim not supported" in lines
    assert "**Answer Quality:** (NO VERDICT): the judge said nothing" in lines
    assert "**Error:** boom" in lines
    assert "about price" not in content
    assert "<script" not in content
    assert "](" not in content


def test_junit_keeps_failures_errors_and_skips_apart(api: Offline, run: str) -> None:
    """An item that did not pass is a failure, one that could not be judged an error, and one not judged a skip."""
    suite = ET.fromstring(exported(api, run, "junit"))  # noqa: S314 - our own
    assert {key: suite.get(key) for key in ("name", "tests", "failures", "errors", "skipped")} == {
        "name": "qa",
        "tests": "6",
        "failures": "2",
        "errors": "2",
        "skipped": "1",
    }
    tags = {case.get("name"): [each.tag for each in case] for case in suite}
    assert tags == {
        "refund": ["failure"],
        "price": [],
        "crash": ["error"],
        "dumb": ["error"],
        "silent": ["skipped"],
        "evil": ["failure"],
    }
    assert suite.find("testcase[@name='price']").get("time") == "0.250"  # type: ignore[union-attr] # it is there


def test_html_is_one_file_that_sorts_and_asks_nobody(
    api: Offline, run: str, browser: "Browser", tmp_path: Path
) -> None:
    """In a browser it reads in both themes, is usable, sorts by a column, and nothing of an item runs."""
    assert api.running is not None
    file = tmp_path / "run.html"
    file.write_text(exported(api, run, "html"), encoding="utf-8")
    for scheme in ("light", "dark"):
        with a_page(browser, "file://", color_scheme=scheme, viewport={"width": 390, "height": 844}) as watch:
            watch.page.goto(file.as_uri())
            watch.page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
            assert watch.sideways() <= 0
            assert "owned" not in watch.page.title()
            watch.page.get_by_role("button", name="Answer Quality").click()
            shown = watch.page.locator(".cases tbody td:nth-child(3)").all_inner_texts()
            assert shown == ["0.1", "0.45", "0.9", "-", "no verdict", "skipped"]


def test_an_empty_run_is_a_file_too(api: Offline) -> None:
    """Nothing divides by its no items."""
    run = api.begin()
    for form in REPORT_FORMS:
        assert exported(api, run, form)
    assert json.loads(exported(api, run, "json"))["items"] == []


def test_the_command_writes_a_run(api: Offline, run: str, tmp_path: Path) -> None:
    """The form follows from the name of the file, and a name that says nothing is asked about."""
    for name, form in (("out.md", "markdown"), ("out.xml", "junit"), ("out.json", "json")):
        done = CliRunner().invoke(main, ["experiments", "export", run, str(tmp_path / name), "--server", api.url])
        assert done.exit_code == 0, done.output
        assert (tmp_path / name).read_text(encoding="utf-8") == exported(api, run, form)
    assert CliRunner().invoke(main, ["experiments", "export", run, "out", "--server", api.url]).exit_code == 2
    missing = CliRunner().invoke(main, ["experiments", "export", "no", str(tmp_path / "x.md"), "--server", api.url])
    assert missing.exit_code != 0
    assert not list(tmp_path.glob("x.md*"))
