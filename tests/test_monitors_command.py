"""`tracejury monitors replay`: the report for a file of results, and for invalid lines."""

import gzip
import json
import random
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from collector.cli.main import main
from rules.statistics.settings import MonitorSettings
from tests.source_tree import ROOT


def a_line(**changed: Any) -> str:
    """Build a line of the file; a key with `...` is left out."""
    line = {"stream": "a", "release": "1", "passed": True, "score": None, **changed}
    return json.dumps({key: value for key, value in line.items() if value is not ...})


def replay(*arguments: str, stdin: bytes | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, ["monitors", "replay", *arguments], input=stdin)


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """Return two streams, one of which becomes worse with its second release, after 500 results."""
    drawn = random.Random(1)
    lines = []
    for at in range(1_000):
        release = "1" if at < 500 else "2"
        worse = at >= 500 and drawn.random() < 0.2
        lines.append(a_line(stream="same", release=release, passed=drawn.random() < 0.92))
        lines.append(a_line(stream="worse", release=release, passed=drawn.random() < 0.92 and not worse))
    file = tmp_path / "scores.jsonl"
    file.write_text("\n".join(lines) + "\n\n", encoding="utf-8")
    return file


def test_each_stream_has_a_line_with_its_alarms(scores: Path) -> None:
    """Alarms are numbered from the stream's first result, and have the numbers needed to check them."""
    answer = replay(str(scores))
    assert answer.exit_code == 0, answer.output
    same, worse = map(json.loads, answer.stdout.splitlines())
    assert same == {"stream": "same", "results": 1_000, "scored": 1_000, "measure": "passed", "alarms": []}
    assert (worse["stream"], worse["results"]) == ("worse", 1_000)
    (alarm,) = worse["alarms"]
    assert (alarm["kind"], alarm["release"], alarm["against"]) == ("release", "2", ["1"])
    assert alarm["at"] == 500 + alarm["candidate"]["results"]
    assert alarm["baseline"]["low"] < alarm["baseline"]["rate"] < alarm["baseline"]["high"]
    assert alarm["evidence"] >= alarm["threshold"] == 20
    passes = [json.loads(line)["passed"] for line in scores.read_text().splitlines()[1::2]]
    assert alarm["candidate"]["rate"] == pytest.approx(sum(passes[500 : alarm["at"]]) / (alarm["at"] - 500), abs=1e-6)


def test_gzip_and_standard_input_are_the_same(scores: Path, tmp_path: Path) -> None:
    """The answer does not depend on the way the lines come."""
    plain = replay(str(scores)).stdout
    packed = tmp_path / "scores.gz"
    packed.write_bytes(gzip.compress(scores.read_bytes()))
    assert replay(str(packed)).stdout == plain
    assert replay("-", stdin=scores.read_bytes()).stdout == plain
    assert replay("-", stdin=packed.read_bytes()).stdout == plain


def test_options_are_the_settings(scores: Path) -> None:
    """Each option changes its setting of the monitor."""

    def alarms(*options: str) -> list[dict[str, Any]]:
        answer = replay(str(scores), *options)
        assert answer.exit_code == 0, answer.output
        alarms_printed: list[dict[str, Any]] = json.loads(answer.stdout.splitlines()[1])["alarms"]
        return alarms_printed

    plain = alarms()[0]["at"]
    assert alarms("--alpha", "0.0001")[0]["at"] > plain
    assert alarms("--margin", "0.5") == []
    assert alarms("--minimum", "400", "--off", "drift")[0]["at"] >= 900
    assert alarms("--minimum", "600") == []
    assert alarms("--baseline", "64")[0]["baseline"]["results"] < 100
    assert [alarm["kind"] for alarm in alarms("--off", "release")] == ["drift"]
    assert alarms("--off", "release", "--every", "1000")[0]["threshold"] == 2_000
    assert alarms("--off", "release", "--off", "drift") == []


def test_scores_are_measured_where_nothing_passes_or_fails() -> None:
    """A stream without verdicts is measured by its scores, in the direction asked for."""
    drawn = random.Random(2)
    lines = [
        a_line(passed=None, score=drawn.uniform(0.7, 0.9) - (at >= 300) * 0.2, release=str(at // 300))
        for at in range(500)
    ]
    text = "\n".join(lines).encode()
    document = json.loads(replay("-", stdin=text).stdout)
    assert (document["measure"], document["scored"], len(document["alarms"])) == ("score", 500, 1)
    assert json.loads(replay("-", "--lower-is-better", stdin=text).stdout)["alarms"] == []


def test_results_without_verdict_and_score_count_and_say_nothing() -> None:
    """Null in both is a result that was not scored, a missing key is null, and no release is none."""
    lines = [a_line(passed=None), a_line(passed=True, score=...), a_line(passed=..., score=1), a_line(release=...)]
    answer = json.loads(replay("-", stdin="\n".join(lines).encode()).stdout)
    assert answer == {"stream": "a", "results": 4, "scored": 2, "measure": "passed", "alarms": []}


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "not JSON: "),
        ("[1]", 'must be an object such as {"stream": "a", "release": "1", "passed": true, "score": null}'),
        (a_line(stream=...), "stream: must be a text that is not empty (there is none)"),
        (a_line(stream=""), 'stream: must be a text that is not empty (got "")'),
        (a_line(release=7), "release: must be a text, or null (got 7)"),
        (a_line(passed="yes"), 'passed: must be true, false or null (got "yes")'),
        (a_line(passed=1), "passed: must be true, false or null (got 1)"),
        (a_line(score=1.5), "score: must be a number from 0 to 1, or null (got 1.5)"),
        (a_line(score=True), "score: must be a number from 0 to 1, or null (got true)"),
        (a_line(score=float("nan")), "score: must be a number from 0 to 1, or null (got NaN)"),
        (a_line(passed=..., score=...), "passed or score is required; send null if there is no verdict"),
        ('{"stream": "\\ud800", "passed": 1}', "passed: must be true, false or null (got 1)"),
    ],
)
def test_a_bad_line_is_told_with_its_place_and_what_would_be_right(line: str, message: str) -> None:
    """The line, the key and the remedy are named, and nothing else is printed."""
    answer = replay("-", stdin=f"{a_line()}\n{line}\n{a_line()}\n".encode())
    assert answer.exit_code == 1
    assert f"Error: -:2: {message}" in answer.stderr
    assert answer.stdout == ""


def test_many_bad_lines_are_told_at_once() -> None:
    """Twenty bad lines are named, not one at a time and not a million."""
    answer = replay("-", stdin=b"nonsense\n" * 1_000)
    assert answer.stderr.count("not JSON") == 20
    assert "-:20:" in answer.stderr


def test_what_cannot_be_read_is_told() -> None:
    """A missing file, broken gzip and settings out of range are errors in a sentence."""
    assert "no-such-file cannot be read" in replay("no-such-file").stderr
    assert "- cannot be read" in replay("-", stdin=b"\x1f\x8bnonsense").stderr
    assert "- cannot be read" in replay("-", stdin=gzip.compress(a_line().encode())[:-4]).stderr
    answer = replay("-", "--alpha", "2")
    assert (answer.exit_code, "--alpha must be from" in answer.stderr) == (2, True)


def test_the_defaults_that_are_told_are_the_defaults() -> None:
    """The help and the page of the command line tell each setting's default as it is."""
    help_text = " ".join(replay("--help").stdout.split())
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for field in fields(MonitorSettings):
        if field.name not in {"off", "lower_is_better"}:
            assert f"[default: {field.default}]" in re.split(rf"--{field.name} ", help_text)[1].split(" --")[0]
            assert re.search(rf"`--{field.name} [A-Z]` \({field.default}\)", page)
