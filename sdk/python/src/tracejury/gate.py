"""The regression gate as an assertion of a test: `tracejury gate` decides without a server, or a server decides."""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

from tracejury.builtin import installed
from tracejury.client import URL_VARIABLE, Client
from tracejury.results import Result

SEVERITY_MARGIN: Final = 0.15
"""No item may lose more by one evaluator. A guess, that of Dokimos, whose users expect a lost item to fail the test."""

_COMMAND: Final = ("tracejury",)
_UPDATE_VARIABLE: Final = "TRACEJURY_UPDATE_BASELINE"
_DECIDED: Final = frozenset({1, 3, 4})  # exit codes: regressed, inconclusive, no baseline
_FOLDER: Final = Path("gate")


def assert_no_regression(
    result: Result,
    baseline: str | Path | None = None,
    *,
    on: Literal["files", "server"] = "files",
    severity_margin: float | None = SEVERITY_MARGIN,
    options: Sequence[str] = (),
    command: Sequence[str] = _COMMAND,
) -> str:
    """Fail if results are worse than the baseline, and return the gate's report.

    A name, by default that of the experiment, is the file `baselines/NAME.json`; a `Path` is the file itself. Both are
    relative to the working directory. Without a baseline, a run outside of CI writes it. `options` are those of
    `tracejury gate`; with `severity_margin=None` only the statistics decide. The results become the baseline
    with TRACEJURY_UPDATE_BASELINE=true.

    With `on="server"` the results are those of a run that was reported, and the baseline is a run, by its id, or by
    default the newest one that fits. `options` are those of `tracejury experiments gate`.

    Raises:
        AssertionError: the results are worse than the baseline, or nothing was judged. With `options`, also if the
            result is inconclusive, or there is no baseline.
        ProgramNotFound: the program `tracejury` is not installed here.
        ValueError: the results cannot be compared; the message says why.
    """
    __tracebackhide__ = True
    margin = () if severity_margin is None else ("--severity-margin", str(severity_margin))
    if on == "server":
        return _on_server(result, baseline, (*margin, *options), command)
    name = str(baseline or result.name).strip()
    if not name:
        raise ValueError("name the experiment, or give a name or a path of the baseline")
    file = baseline if isinstance(baseline, Path) else Path("baselines") / f"{_file_name(name)}.json"
    results = _FOLDER / "results" / f"{_file_name(file.stem)}.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    result.write(results)
    failed, text = _decide(command, "gate", str(results), "--baseline", str(file), *margin, *options)
    if failed:
        raise AssertionError(text)
    return text


def _on_server(result: Result, baseline: str | Path | None, options: Sequence[str], command: Sequence[str]) -> str:
    __tracebackhide__ = True
    client = Client.from_environment()
    if client is None:
        raise ValueError(f"no server is named: set {URL_VARIABLE}")
    named = () if baseline is None else ("--baseline", str(baseline))
    try:
        if result.run_id is None:
            raise ValueError("no server has the results: the experiment reported them to none")
        failed, text = _decide(command, "experiments", "gate", result.run_id, *named, *options)
        failed = failed and os.environ.get(_UPDATE_VARIABLE, "").lower() not in {"1", "true", "yes"}
        # A run that failed is SUCCESS all the same: without its verdict it would be the next baseline.
        client.send("PATCH", f"/runs/{result.run_id}", {"verdict": "FAIL" if failed else "PASS"})
    finally:
        client.close()
    if failed:
        raise AssertionError(f"{text}\nTo accept it, run the test again with {_UPDATE_VARIABLE}=true.")
    return text


def _decide(command: Sequence[str], *arguments: str) -> tuple[bool, str]:
    """Run a gate; return True if it failed, with its report."""
    __tracebackhide__ = True
    arguments_of_process = (installed(command[0]), *command[1:], *arguments)
    done = subprocess.run(arguments_of_process, capture_output=True, text=True, check=False)  # noqa: S603 - as the caller says
    text = f"{done.stdout}{done.stderr}".strip()
    if done.returncode and not (done.returncode in _DECIDED and done.stdout):
        raise ValueError(text)
    return bool(done.returncode), text


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:100] or "gate"
