"""The gate as an assertion: a test fails if results are worse than the baseline in a file, or a run on a server."""

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.offline import an_offline_server
from tracejury import Dataset, Example, Experiment, Result, assert_no_regression

pytestmark = pytest.mark.costly(
    "collector/experiments", "collector/gating", "rules/statistics", "sdk/python/src", "storage/offline"
)

COMMAND = (str(Path(sys.executable).parent / "tracejury"),)


@pytest.fixture(autouse=True)
def a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder outside of CI."""
    monkeypatch.chdir(tmp_path)
    for name in ("CI", "TRACEJURY_UPDATE_BASELINE"):
        monkeypatch.delenv(name, raising=False)


def results(*wrong: int) -> Result:
    """Return results of twenty items, of which some are wrong."""

    def exact(example: Example, outputs: Any) -> bool:
        return bool(outputs["output"] == example.expected_output)

    dataset = Dataset(
        "qa", [Example(id=str(n), inputs={"input": n}, expected_outputs={"output": n}) for n in range(20)]
    )
    return Experiment("my agent", dataset, lambda each: -1 if each.input in wrong else each.input, [exact]).run()


def test_a_worse_result_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run writes the baseline, an equal one passes, one lost item of twenty fails, and can be accepted."""
    assert "baseline created at baselines/my-agent.json" in assert_no_regression(results(), command=COMMAND)
    assert assert_no_regression(results(), "my agent", command=COMMAND).startswith("PASS")
    with pytest.raises(AssertionError, match=r"FAIL(.|\n)*tracejury gate gate/results/my-agent.json --baseline"):
        assert_no_regression(results(3), command=COMMAND)
    monkeypatch.setenv("TRACEJURY_UPDATE_BASELINE", "true")
    assert_no_regression(results(3), command=COMMAND)
    monkeypatch.delenv("TRACEJURY_UPDATE_BASELINE")
    assert_no_regression(results(3), command=COMMAND)


def test_without_the_guard_only_the_statistics_fail_a_test() -> None:
    """One lost item of twenty is inconclusive then, and many are a regression."""
    file = Path("kept") / "base.json"
    assert_no_regression(results(), file, command=COMMAND)
    assert file.exists()
    text = assert_no_regression(results(3), file, severity_margin=None, command=COMMAND)
    assert "inconclusive" in text
    with pytest.raises(AssertionError, match="inconclusive"):
        assert_no_regression(
            results(3), file, severity_margin=None, options=["--fail-on-inconclusive"], command=COMMAND
        )
    with pytest.raises(AssertionError, match="FAIL"):
        assert_no_regression(results(*range(10)), file, severity_margin=None, command=COMMAND)


def test_what_cannot_be_compared_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A baseline that is none says so, and CI without one fails if one is required."""
    Path("broken.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"broken\.json") as error:
        assert_no_regression(results(), Path("broken.json"), command=COMMAND)
    inside = [each for each in error.traceback if "tracejury" in Path(each.path).parts]
    assert [each.name for each in inside if not each.ishidden(error)] == []
    monkeypatch.setenv("CI", "true")
    with pytest.raises(AssertionError):
        assert_no_regression(results(), "none", options=["--require-baseline"], command=COMMAND)


def test_a_run_on_a_server_is_the_baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest that fits or a named one; a run that failed is not a baseline until it is accepted."""
    with an_offline_server(tmp_path / "data") as server:
        monkeypatch.setenv("TRACEJURY_URL", server.url)

        def verdict(result: Result) -> Any:
            return server.ask("GET", f"runs/{result.run_id}")["verdict"]

        first = results()
        assert "nothing was compared" in assert_no_regression(first, on="server", command=COMMAND)
        for _ in range(2):  # the second is not compared with the first
            worse = results(3)
            with pytest.raises(AssertionError, match=r"FAIL(.|\n)*worse: 3(.|\n)*TRACEJURY_UPDATE_BASELINE=true"):
                assert_no_regression(worse, on="server", command=COMMAND)
            assert verdict(worse) == "FAIL"
        monkeypatch.setenv("TRACEJURY_UPDATE_BASELINE", "true")
        accepted = results(3)
        assert_no_regression(accepted, on="server", command=COMMAND)
        monkeypatch.delenv("TRACEJURY_UPDATE_BASELINE")
        assert (verdict(first), verdict(accepted)) == ("PASS", "PASS")
        assert assert_no_regression(results(3), on="server", command=COMMAND).startswith("PASS")
        with pytest.raises(AssertionError, match="FAIL"):
            assert_no_regression(results(3), first.run_id, on="server", command=COMMAND)
        with pytest.raises(ValueError, match="there is no run none here"):
            assert_no_regression(results(), "none", on="server", command=COMMAND)
    monkeypatch.delenv("TRACEJURY_URL")
    with pytest.raises(ValueError, match="no server is named: set TRACEJURY_URL"):
        assert_no_regression(first, on="server", command=COMMAND)
