"""The gate without a server: its input and output files, its verdicts, and where people see them."""

import json
import os
import subprocess
import sysconfig
import xml.etree.ElementTree as ET
from itertools import product
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from click.testing import CliRunner, Result

from collector.cli.main import main
from collector.gating.baseline import baseline_document, read_baseline, write_baseline
from collector.gating.results import Results
from rules.statistics.runs.records import ComparedEvaluator, JudgedItem, TrialResult, run_of
from tests.forge import TOKEN, a_forge
from tests.offline import an_offline_server
from tests.source_tree import ROOT

MARK = "<!-- tracejury-gate -->"
CI = {"CI": "true"}
LOCAL = {"CI": ""}


def an_export(*scores: Any, name: str = "exact", ids: bool = False, **more: Any) -> dict[str, Any]:
    """Build an experiment's export with one evaluator; lists are trials."""
    return {
        "version": 1,
        "experimentName": "agent",
        "items": [
            {
                **({"id": f"q-{at:03}"} if ids else {}),
                "input": f"question {at}",
                "evaluations": [
                    {
                        "evaluator": name,
                        "threshold": 0.5,
                        **({"scores": score} if isinstance(score, list) else {"score": score}),
                        **more,
                    }
                ],
            }
            for at, score in enumerate(scores)
        ],
    }


class Desk:
    """A folder in which the gate runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.baseline = folder / "baselines" / "agent.json"

    def gate(self, export: Any, *options: str, env: dict[str, str] | None = None) -> Result:
        """Run the gate over an export."""
        results = self.folder / "results.json"
        results.write_text(export if isinstance(export, str) else json.dumps(export), encoding="utf-8")
        verdicts = str(self.folder / "gate")
        arguments = ["gate", str(results), "--baseline", str(self.baseline), "--verdict-dir", verdicts, *options]
        return CliRunner().invoke(main, arguments, env={**LOCAL, "TRACEJURY_UPDATE_BASELINE": "", **(env or {})})

    def verdict(self) -> Any:
        """Return the verdict that it left."""
        return json.loads((self.folder / "gate" / "agent.json").read_text(encoding="utf-8"))

    def report(self, *options: str, env: dict[str, str] | None = None) -> Result:
        """Run the report over the verdicts."""
        arguments = ["gate-report", "--verdict-dir", str(self.folder / "gate"), *options]
        return CliRunner().invoke(main, arguments, env={"GITHUB_STEP_SUMMARY": "", **(env or {})})


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Return an empty folder."""
    return Desk(tmp_path)


def test_the_first_local_run_writes_the_baseline_and_ci_does_not(desk: Desk) -> None:
    """Without a baseline CI says so loudly, passes or exits with 4, and writes none; a local run writes it."""
    result = desk.gate(an_export(1, 1), env=CI)
    assert (result.exit_code, desk.verdict()["status"], desk.verdict()["passed"]) == (0, "NO_BASELINE", True)
    assert "nothing was measured" in result.stderr
    assert desk.gate(an_export(1, 1), "--require-baseline", env=CI).exit_code == 4
    assert not desk.baseline.exists()
    assert desk.gate(an_export(1, 1), "--no-bootstrap").exit_code == 1
    assert desk.baseline.exists()
    desk.baseline.unlink()
    assert desk.gate(an_export(1, 1)).exit_code == 0
    assert (desk.baseline.exists(), desk.verdict()["comparedPass"]) == (True, False)
    assert len(desk.verdict()["warnings"]) == 1
    export = an_export(1, 1)
    export["items"][0]["evaluations"].append({"evaluator": "tone", "score": None})
    desk.gate(export, "--update-baseline")
    assert "scored nothing in this run" in desk.verdict()["warnings"][1]


def test_the_baseline_has_the_known_format_and_is_deterministic(desk: Desk) -> None:
    """One trial an item has the known keys in their order, sorted by position; writing again changes no byte."""
    desk.gate(an_export(*[1] * 11, 0.25))
    first = desk.baseline.read_bytes()
    document = json.loads(first)
    assert list(document) == ["formatVersion", "experiment", "dataset", "pairing", "runsPerItem", "items", "provenance"]
    assert (document["pairing"], document["runsPerItem"], document["dataset"]) == ("positional", 1, {"itemCount": 12})
    assert [item["key"] for item in document["items"]] == [f"item-{at}" for at in range(12)]
    assert document["items"][11] == {
        "key": "item-11",
        "input": "question 11",
        "evaluators": [{"name": "exact", "score": 0.25, "threshold": 0.5, "pass": False}],
    }
    desk.gate(an_export(*[1] * 11, 0.25), "--update-baseline")
    assert desk.baseline.read_bytes() == first


def test_items_with_ids_stay_theirs_when_rows_move(desk: Desk) -> None:
    """Results in another order are paired by id, and the baseline is sorted by it."""
    export = an_export(*[at % 2 for at in range(60)], ids=True)
    desk.gate(export)
    before = desk.baseline.read_bytes()
    export["items"].reverse()
    assert desk.gate(export, env=CI).exit_code == 0
    assert desk.verdict()["unchangedCount"] == 60
    desk.gate(export, "--update-baseline")
    assert desk.baseline.read_bytes() == before


def test_repeats_survive_the_baseline_one_by_one(desk: Desk) -> None:
    """Trials are kept beside their mean, so that comparing with oneself changes nothing and rounds nothing."""
    export = an_export(*[[1, 0, 1], [1, None, 1]] * 30)
    desk.gate(export)
    entry = json.loads(desk.baseline.read_text(encoding="utf-8"))["items"][0]["evaluators"][0]
    assert (entry["score"], entry["pass"], entry["scores"]) == (0.666667, True, [1.0, 0.0, 1.0])
    desk.gate(export, "--unscored", "failed=exclude", env=CI)
    assert (desk.verdict()["regressedCount"], desk.verdict()["evaluators"][0]["method"]) == (0, "signs")


def test_items_that_lost_are_counted_in_a_pass(desk: Desk) -> None:
    """The counts say how items moved; that they moved by more than chance is said of evaluators."""
    desk.gate(an_export(*[1] * 20, *[0] * 2))
    desk.gate(an_export(0, *[1] * 19, 1, 0), env=CI)
    verdict = desk.verdict()
    counts = [verdict[f"{name}Count"] for name in ("regressed", "improved", "unchanged", "unscored")]
    assert (verdict["status"], counts, verdict["regressedEvaluators"]) == ("PASS", [1, 1, 20, 0], [])


def test_a_regression_fails_after_its_verdict_is_written(desk: Desk) -> None:
    """Twelve lost items of a hundred exit with 1, leave the verdict, name the items, and say how to accept it."""
    desk.gate(an_export(*[1] * 100))
    result = desk.gate(an_export(*[0] * 12, *[1] * 88), "--junit", str(desk.folder / "junit.xml"), env=CI)
    assert result.exit_code == 1
    verdict = desk.verdict()
    assert (verdict["status"], verdict["verdict"], verdict["regressedCount"]) == ("FAIL", "regressed", 12)
    assert (verdict["passRateDelta"], verdict["significant"], len(verdict["cases"])) == (-0.12, True, 12)
    assert verdict["cases"][0]["evaluatorDrops"][0]["delta"] == -1
    assert "TRACEJURY_UPDATE_BASELINE=true" in result.output
    suite = ET.fromstring((desk.folder / "junit.xml").read_text(encoding="utf-8"))  # noqa: S314 - our own
    assert (suite.get("failures"), suite.get("tests")) == ("2", "2")
    allowed = desk.gate(an_export(*[0] * 12, *[1] * 88), "--no-fail-on-regression", env=CI)
    assert (allowed.exit_code, desk.verdict()["passed"], desk.verdict()["verdict"]) == (0, True, "regressed")
    assert desk.gate(an_export(*[0] * 12, *[1] * 88), env={"TRACEJURY_UPDATE_BASELINE": "true"}).exit_code == 0
    assert desk.gate(an_export(*[0] * 12, *[1] * 88), env=CI).exit_code == 0


def test_the_list_of_cases_is_cut_and_says_so(desk: Desk) -> None:
    """Of sixty lost items fifty are listed, the count stays true, and the list says that it was cut."""
    desk.gate(an_export(*[1] * 100))
    cut = desk.gate(an_export(*[0] * 60, *[1] * 40), env=CI)
    verdict = desk.verdict()
    assert (len(verdict["cases"]), verdict["casesTruncated"], verdict["regressedCount"]) == (50, True, 60)
    assert "and 50 more" in cut.output
    assert "and 10 more" in desk.report().output


def test_what_is_not_known_is_loud_and_may_be_fatal(desk: Desk) -> None:
    """Two items prove nothing: a warning and 0, or 3 if that is chosen."""
    desk.gate(an_export(1, 1))
    result = desk.gate(an_export(1, 1), env=CI)
    assert (result.exit_code, desk.verdict()["verdict"]) == (0, "inconclusive")
    assert "warning: inconclusive" in result.stderr
    assert desk.verdict()["evaluators"][0]["itemsNeeded"] > 2
    assert desk.gate(an_export(1, 1), "--fail-on-inconclusive", env=CI).exit_code == 3


def test_one_item_that_broke_hard_fails_where_that_is_chosen(desk: Desk) -> None:
    """A drop by more than the severity margin fails on its own, and one by exactly it does not."""
    desk.gate(an_export(*[0.9] * 60))
    assert desk.gate(an_export(0.75, *[0.9] * 59), "--severity-margin", "0.15", env=CI).exit_code == 0
    assert desk.gate(an_export(0.74, *[0.9] * 59), "--severity-margin", "0.15", env=CI).exit_code == 1


def test_what_disappeared_is_told_or_fails(desk: Desk) -> None:
    """A missing evaluator fails unless allowed, and a missing item is reported, or fails on request."""
    export = an_export(*[1] * 60)
    for item in export["items"]:
        item["evaluations"].append({"evaluator": "tone", "score": 1, "threshold": 0.5})
    desk.gate(export)
    assert desk.gate(an_export(*[1] * 60), env=CI).exit_code == 1
    assert desk.gate(an_export(*[1] * 60), "--allow-removed-evaluators", env=CI).exit_code == 0
    export["items"].pop()
    result = desk.gate(export, env=CI)
    assert (result.exit_code, desk.verdict()["removedCount"]) == (0, 1)
    assert desk.gate(export, "--fail-on-removed-items", env=CI).exit_code == 1


def partly_judged(scored: int, outcome: str) -> dict[str, Any]:
    """Return an export as the server writes it: failed and skipped evaluations have neither threshold nor direction."""
    export = an_export(*[0.2] * 40, better="lower", fingerprint="f1")
    lost = {"evaluator": "exact", "averageScore": None, "score": None, "success": None, "outcome": outcome}
    for item in export["items"][scored:]:
        item["evaluations"] = [lost]
    return export


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_terms_come_from_what_has_a_score(desk: Desk, outcome: str) -> None:
    """A run whose judge gave no verdict on some items compares with itself, and so does the baseline made of it."""
    export = partly_judged(20, outcome)
    export["items"].reverse()
    assert desk.gate(export).exit_code == 0
    assert desk.gate(export, env=CI).exit_code == 0
    assert desk.verdict()["evaluators"][0]["unscored"] == {outcome: [20, 20]}
    (desk.folder / "results.json").write_text(json.dumps(export), encoding="utf-8")
    assert desk.gate(export, "--against", str(desk.folder / "results.json")).exit_code == 0
    assert desk.verdict()["evaluators"][0]["better"] == "lower"


def test_a_score_without_a_verdict_is_not_failed_in_the_baseline(desk: Desk) -> None:
    """A baseline of scores without threshold and success has no pass rate, and a later run improves on none."""
    export = an_export(*[0.9] * 60, threshold=None)
    desk.gate(export)
    (entry,) = json.loads(desk.baseline.read_text(encoding="utf-8"))["items"][0]["evaluators"]
    assert (entry["score"], entry["pass"]) == (0.9, None)
    assert desk.gate(an_export(*[0.9] * 60, threshold=None, success=True), env=CI).exit_code == 0
    assert (desk.verdict()["baselinePassRate"], desk.verdict()["improvedCount"]) == (None, 0)


@pytest.mark.parametrize("trials", [1, 3])
def test_what_was_not_scored_is_in_the_baseline_as_it_was(tmp_path: Path, trials: int) -> None:
    """Each trial that failed, was skipped, or was not judged by an evaluator is read back as such."""
    outcomes: list[Literal["scored", "failed", "skipped", "missing"]] = ["scored", "failed", "skipped", "missing"]
    items = [JudgedItem(key=f"item-{at}", text="q") for at in range(4**trials)]
    evaluators = [ComparedEvaluator(name=name) for name in ("other", "sometimes")]
    results = []
    for item, each in zip(items, product(outcomes, repeat=trials), strict=True):
        for trial, outcome in enumerate(each):
            place: dict[str, Any] = {"item": item.key, "trial": trial}
            results.append(TrialResult(**place, evaluator="other", score=1.0, passed=True))
            if outcome != "missing":
                score = {"score": 0.5, "passed": True} if outcome == "scored" else {"outcome": outcome}
                results.append(TrialResult(**place, evaluator="sometimes", **score))
    run = run_of(items, evaluators, results)
    write_baseline(tmp_path / "b.json", baseline_document(Results(experiment="e", pairing="positional", run=run), {}))
    stored = read_baseline(tmp_path / "b.json").run
    assert stored.outcomes.tolist() == run.outcomes.tolist()


@pytest.mark.parametrize("verdicts, passes", [((True, False), True), ((True, False, False), False)])
def test_an_item_passes_if_half_of_its_trials_do(verdicts: tuple[bool, ...], *, passes: bool) -> None:
    """In a baseline, a tie of trials is a pass, and a minority is not."""
    results = [
        TrialResult(item="item-0", trial=trial, evaluator="other", score=float(each), passed=each)
        for trial, each in enumerate(verdicts)
    ]
    run = run_of([JudgedItem(key="item-0", text="q")], [ComparedEvaluator(name="other")], results)
    document = baseline_document(Results(experiment="e", pairing="positional", run=run), {})
    assert [each["pass"] for each in document["items"][0]["evaluators"]] == [passes]


def test_a_run_of_which_nothing_was_judged_is_no_success(desk: Desk) -> None:
    """It ends with 3, becomes no baseline, and cannot be accepted; if unscored items are fails, it regressed."""
    dead = partly_judged(0, "failed")
    for env in (LOCAL, CI, {"TRACEJURY_UPDATE_BASELINE": "true"}):
        assert (desk.gate(dead, env=env).exit_code, desk.baseline.exists()) == (3, False)
        assert desk.verdict()["status"] == "FAIL"
    desk.gate(partly_judged(40, "failed"))
    result = desk.gate(dead, env=CI)
    assert (result.exit_code, "nothing was judged" in result.stdout, "To accept" in result.stdout) == (3, True, False)
    assert (desk.verdict()["verdict"], desk.verdict()["status"]) == ("inconclusive", "FAIL")
    assert desk.gate(dead, "--unscored", "failed=worst", env=CI).exit_code == 1


def test_an_evaluator_that_judged_nothing_in_the_baseline_is_no_loss(desk: Desk) -> None:
    """If it is missing, that is a warning: nothing that was known is lost."""
    export = an_export(*[1] * 60)
    for item in export["items"]:
        item["evaluations"].append({"evaluator": "tone", "score": None, "outcome": "failed"})
    desk.gate(export)
    result = desk.gate(an_export(*[1] * 60), env=CI)
    assert (result.exit_code, desk.verdict()["verdict"], desk.verdict()["failures"]) == (0, "not_worse", [])
    assert "tone of the baseline is missing" in result.stderr


@pytest.mark.parametrize(
    "change, message",
    [
        ({"formatVersion": 2}, "format 2 is not known"),
        ({"items": []}, "a list 'items' is needed"),
        ({"items": [{"key": "seven", "evaluators": [{"name": "a", "score": 1}]}]}, "not a key of an item"),
        ({"items": [{"key": "item-0", "evaluators": []}]}, "a list 'evaluators' is needed"),
        ({"items": [{"key": "item-0", "evaluators": [{"name": "a", "score": 1}]}] * 2}, "twice"),
        ({"items": [{"key": "item-0", "evaluators": [{"name": "a", "score": "1"}]}]}, "not a finite number"),
        (
            {"items": [{"key": "item-0", "evaluators": [{"name": "a", "scores": [1, None], "outcomes": ["scored"]}]}]},
            "the same length as scores",
        ),
        ({"pairing": "dataset_item_id"}, "paired by"),
    ],
)
def test_a_baseline_that_says_nonsense_is_refused(desk: Desk, change: dict[str, Any], message: str) -> None:
    """A baseline that is newer, empty, duplicated or not a number ends with 2 and the error."""
    desk.gate(an_export(1, 1))
    document = json.loads(desk.baseline.read_text(encoding="utf-8"))
    desk.baseline.write_text(json.dumps({**document, **change}), encoding="utf-8")
    result = desk.gate(an_export(1, 1), env=CI)
    assert (result.exit_code, message in result.output) == (2, True)


@pytest.mark.parametrize(
    "export, message",
    [
        ({**an_export(1), "experimentName": ""}, "no name"),
        ({**an_export(1), "items": []}, "a list 'items' is needed"),
        ('{"items": [], "items": []}', "duplicate key"),
        (
            {**an_export(1, better="lower"), "items": an_export(1)["items"] + an_export(1, better="lower")["items"]},
            "another",
        ),
        (an_export("1"), "not a finite number"),
        (an_export(1, outcome="lost"), "outcome is"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_results_that_say_nonsense_are_refused(desk: Desk, export: Any, message: str) -> None:
    """Results without a name, items or numbers end with 2 and say where."""
    result = desk.gate(export)
    assert (result.exit_code, message in result.output) == (2, True)


def test_another_fingerprint_is_not_compared(desk: Desk) -> None:
    """An evaluator that changed ends with 2, not with a verdict."""
    desk.gate(an_export(1, 1, fingerprint="a"))
    result = desk.gate(an_export(1, 1, fingerprint="b"), env=CI)
    assert (result.exit_code, "fingerprint was a and is b" in result.output) == (2, True)


def test_nan_does_not_pass(desk: Desk) -> None:
    """Scores of NaN are failures that are counted, and enough of them are not a pass."""
    desk.gate(an_export(*[1] * 100))
    desk.gate(an_export(*[float("nan")] * 12, *[1] * 88), env=CI)
    verdict = desk.verdict()
    assert (verdict["verdict"], verdict["evaluators"][0]["unscored"]) == ("inconclusive", {"failed": [0, 12]})


def test_an_error_beside_a_score_is_a_failure_of_the_evaluator(desk: Desk) -> None:
    """It is counted as failed, and its score as none."""
    desk.gate(an_export(*[1] * 4))
    desk.gate(an_export(*[1] * 4, error="timeout"), env=CI)
    assert desk.verdict()["evaluators"][0]["unscored"] == {"failed": [0, 4]}


def github_env(url: str, event: Path, number: int | None = 7) -> dict[str, str]:
    """Build the environment of a pull request workflow."""
    event.write_text(json.dumps({"pull_request": {"number": number}} if number else {}), encoding="utf-8")
    return {
        "GITHUB_API_URL": url,
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_REPOSITORY": "me/agent",
        "GITHUB_EVENT_PATH": str(event),
    }


def gitlab_env(url: str) -> dict[str, str]:
    """Build the environment of a merge request pipeline."""
    return {
        "CI_API_V4_URL": url,
        "CI_PROJECT_ID": "3",
        "CI_MERGE_REQUEST_IID": "7",
        "TRACEJURY_GITLAB_TOKEN": TOKEN,
    }


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_one_comment_stays_however_often_is_pushed(desk: Desk, service: str) -> None:
    """The second report changes the comment of the first, also behind a hundred others and beside quotations of it."""
    desk.gate(an_export(*[1] * 100))
    desk.gate(an_export(*[0] * 12, *[1] * 88), env=CI)
    with a_forge() as forge:
        env = github_env(forge.url, desk.folder / "event.json") if service == "github" else gitlab_env(forge.url)
        forge.comments = [{"id": at, "body": f"> {MARK}"} for at in range(120)]
        assert "comment created" in desk.report("--comment", service, env=env).stderr
        desk.gate(an_export(*[1] * 100), env=CI)
        assert "comment updated" in desk.report("--comment", service, env=env).stderr
        ours = [each["body"] for each in forge.comments if each["body"].startswith(MARK)]
    assert len(ours) == 1
    assert "Not worse" in ours[0]


def test_a_fork_gets_no_comment_and_no_failure(desk: Desk) -> None:
    """A token that may only read, no pull request, no token and no server are warnings; the summary is written."""
    desk.gate(an_export(1, 1))
    summary, event = desk.folder / "summary.md", desk.folder / "event.json"
    with a_forge(read_only=True) as forge:
        url = forge.url
        env = {**github_env(url, event), "GITHUB_STEP_SUMMARY": str(summary)}
        refused = desk.report("--comment", "github", env=env)
        unknown = desk.report("--comment", "github", env=github_env(url, event, None))
        nobody = desk.report("--comment", "gitlab", env={**gitlab_env(url), "TRACEJURY_GITLAB_TOKEN": ""})
    away = desk.report("--comment", "gitlab", env=gitlab_env(url))
    assert [each.exit_code for each in (refused, unknown, nobody, away)] == [0, 0, 0, 0]
    assert "as those of forks may not" in refused.stderr
    assert "no pull request" in unknown.stderr
    assert "are needed" in nobody.stderr
    assert "ConnectError" in away.stderr
    assert TOKEN not in refused.output + away.output
    assert summary.read_text(encoding="utf-8").startswith(MARK)


def test_texts_of_others_do_nothing_in_the_comment(desk: Desk) -> None:
    """Inputs with markup, mentions and table cells are shown as they are, and a huge report is cut."""
    nasty = an_export(*[1] * 40)
    for item in nasty["items"]:
        item["input"] = "<img src=x> @everyone [a](http://b) | `x`\n# h " + "y" * 50
    desk.gate(nasty)
    for item in nasty["items"]:
        item["evaluations"][0]["score"] = 0
    desk.gate(nasty, env=CI)
    text = desk.report().output
    assert not any(each in text for each in ("<img", "@everyone", "](http", "# h"))
    assert len(text) < 65_536


def test_runs_are_compared_again_with_cost_and_slices(desk: Desk) -> None:
    """Two files of results are compared with cost and slices; with a baseline file, a margin of cost proves nothing."""
    before, after = an_export(*[1] * 100), an_export(*[1] * 100)
    for at, (old, new) in enumerate(zip(before["items"], after["items"], strict=True)):
        old["costUsd"], new["costUsd"] = 0.01 + at / 1e5, 0.02 + at / 1e5
        new["metadata"] = {"topic": "odd" if at % 2 else "even"}
    kept = desk.folder / "before.json"
    kept.write_text(json.dumps(before), encoding="utf-8")
    result = desk.gate(after, "--against", str(kept), "--slice", "topic", "--cost-margin", "0.1", env=CI)
    assert (result.exit_code, desk.verdict()["ratios"][0]["verdict"]) == (1, "regressed")
    assert [each["value"] for each in desk.verdict()["slices"]] == ["even", "odd"]
    assert "topic = odd" in desk.report().output
    assert "To accept it" not in result.output, "there is no baseline to update"
    assert desk.gate(after, "--against", str(kept), "--margin", "0.2", env=CI).exit_code == 0
    for options, env in ((["--update-baseline"], {}), ([], {"TRACEJURY_UPDATE_BASELINE": "true"})):
        refused = desk.gate(after, "--against", str(kept), *options, env=env)
        assert (refused.exit_code, desk.baseline.exists()) == (2, False)
        assert "--against writes no baseline" in refused.output
    desk.gate(before)
    desk.gate(after, "--cost-margin", "0.1", env=CI)
    assert desk.verdict()["verdict"] == "inconclusive"
    assert any("cost_usd has a margin" in each for each in desk.verdict()["warnings"])


def test_several_gates_share_one_report(desk: Desk) -> None:
    """Every verdict in the folder is in the report, and a file that is none is refused."""
    desk.gate(an_export(1, 1))
    first = desk.folder / "gate" / "agent.json"
    other = {**json.loads(first.read_text(encoding="utf-8")), "experiment": "other"}
    (desk.folder / "gate" / "other.json").write_text(json.dumps(other), encoding="utf-8")
    text = desk.report("--markdown", str(desk.folder / "report.md")).output
    assert (": agent" in text, ": other" in text) == (True, True)
    assert (desk.folder / "report.md").read_text(encoding="utf-8") == text
    (desk.folder / "gate" / "third.json").write_text("{}", encoding="utf-8")
    assert desk.report().exit_code == 2


@pytest.mark.parametrize(
    "schema, file",
    [
        ("github-workflows", "github-gate.yaml"),
        ("github-actions", "gate/action.yaml"),
        ("gitlab-ci", "gitlab-gate.yaml"),
        ("gitlab-ci", "gitlab-include.yaml"),
    ],
)
def test_the_workflow_files_fit_their_schemas(schema: str, file: str) -> None:
    """The files in deploy/ci are what GitHub's and GitLab's published schemas take."""
    program = Path(sysconfig.get_path("scripts")) / "check-jsonschema"
    subprocess.run(
        [program, "--builtin-schema", f"vendor.{schema}", ROOT / "deploy" / "ci" / file],
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("file", ["github-gate.yaml", "gate/action.yaml", "gitlab-gate.yaml", "gitlab-include.yaml"])
def test_the_workflow_files_name_options_that_there_are(file: str) -> None:
    """Every call of the gate in the files is one that the command line takes."""
    text = (ROOT / "deploy" / "ci" / file).read_text(encoding="utf-8")
    calls = [line.partition("tracejury ")[2].split() for line in text.splitlines() if "tracejury gate" in line]
    assert {call[0] for call in calls} == {"gate", "gate-report"}
    for call in calls:
        known = {option for parameter in main.commands[call[0]].params for option in parameter.opts}
        assert {word for word in call if word.startswith("--")} <= known


def the_action(desk: Desk, job: dict[str, str] | None = None, /, **inputs: str) -> "subprocess.CompletedProcess[str]":
    """Run the step of the action that gates, as the runner does, with variables of the job and some of its inputs."""
    action = yaml.safe_load((ROOT / "deploy" / "ci" / "gate" / "action.yaml").read_text(encoding="utf-8"))
    step = action["runs"]["steps"][-1]
    env = (job or {}) | dict.fromkeys(step["env"], "") | {"RESULTS": "results.json", "BASELINE": str(desk.baseline)}
    env |= {
        "CI": "true",
        "FAILS": "true",
        "COMMENT": "true",
        "OPTIONS": "--margin 0.04",
        "GITHUB_STEP_SUMMARY": "summary.md",
    }
    path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", step["run"]],
        cwd=desk.folder,
        env=env | inputs | {"PATH": path, "HOME": str(desk.folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.costly("collector/cli", "collector/gating", "deploy/ci", "rules/statistics")
@pytest.mark.parametrize("inputs, code", [({}, 1), ({"FAILS": "false"}, 0), ({"BASELINE": "none.json"}, 0)])
def test_the_action_fails_as_the_gate_and_reports(desk: Desk, inputs: dict[str, str], code: int) -> None:
    """A regression is in the summary and fails the step, unless it is to be reported only; options are passed on."""
    desk.gate(an_export(*[1] * 100))
    (desk.folder / "results.json").write_text(json.dumps(an_export(*[0] * 12, *[1] * 88)), encoding="utf-8")
    done = the_action(desk, **inputs)
    assert done.returncode == code, done.stderr
    summary = (desk.folder / "summary.md").read_text(encoding="utf-8")
    assert ("No baseline" in summary) is ("BASELINE" in inputs)
    assert "warning: no comment" in done.stderr


@pytest.mark.costly(
    "collector/api/gating",
    "collector/cli",
    "collector/experiments",
    "collector/gating",
    "deploy/ci",
    "rules/statistics",
    "storage/offline",
)
@pytest.mark.parametrize("of_job", [False, True])
def test_the_action_gates_a_run_of_a_server(desk: Desk, of_job: bool) -> None:  # noqa: FBT001 - a parameter
    """The run is compared on the server, an input or the job's variable; without a decision the step fails."""
    with an_offline_server(desk.folder / "data") as server:
        run = ""
        for score in (1, 0):
            run = server.begin()
            scores = [{"name": "exact", "score": score, "fingerprint": "f"}]
            server.report(run, *({"itemKey": str(n), "inputs": {"n": n}, "evalResults": scores} for n in range(30)))
            server.end(run)
        job = {"TRACEJURY_URL": server.url if of_job else "http://127.0.0.1:9"}
        about = {"SERVER_URL": "" if of_job else server.url, "BASELINE": "", "COMMENT": "false"}
        done, none = (the_action(desk, job, RUN=each, **about) for each in (run, "none"))
    assert (done.returncode, none.returncode) == (1, 2), done.stderr
    assert "30 items worse" in (desk.folder / "summary.md").read_text(encoding="utf-8")
    assert "there is no run none here" in none.stderr
