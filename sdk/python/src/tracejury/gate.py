"""The regression gate as an assertion of a test: `tracejury gate` decides, without a server."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tracejury.builtin import installed
from tracejury.results import Result

SEVERITY_MARGIN: Final = 0.15
"""No item may lose more by one evaluator. A guess, that of Dokimos, whose users expect a lost item to fail the test."""

_COMMAND: Final = ("tracejury", "gate")
_DECIDED: Final = frozenset({1, 3, 4})  # it regressed, is inconclusive, or lacks a baseline
_FOLDER: Final = Path("gate")


def assert_no_regression(
    result: Result,
    baseline: str | Path | None = None,
    *,
    severity_margin: float | None = SEVERITY_MARGIN,
    options: Sequence[str] = (),
    command: Sequence[str] = _COMMAND,
) -> str:
    """Fail if results are worse than the baseline, and return what the gate says.

    A name, by default that of the experiment, is the file `baselines/NAME.json`; a path is the file itself. Both are
    relative to the working directory. Without a baseline, a run outside of CI writes it. `options` are those of
    `tracejury gate`; with `severity_margin=None` only what the statistics show fails. The results become the baseline
    with TRACEJURY_UPDATE_BASELINE=true.

    Raises:
        AssertionError: they are worse.
        ProgramNotFound: the program `tracejury` is not installed here.
        ValueError: they cannot be compared; the message says why.
    """
    __tracebackhide__ = True
    name = str(baseline or result.name).strip()
    if not name:
        raise ValueError("name the experiment, or give a name or a path of the baseline")
    file = baseline if isinstance(baseline, Path) else Path("baselines") / f"{_file_name(name)}.json"
    results = _FOLDER / "results" / f"{_file_name(file.stem)}.json"
    results.parent.mkdir(parents=True, exist_ok=True)
    result.write(results)
    margin = () if severity_margin is None else ("--severity-margin", str(severity_margin))
    asked = (installed(command[0]), *command[1:], str(results), "--baseline", str(file), *margin, *options)
    done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603 - as the caller says
    text = f"{done.stdout}{done.stderr}".strip()
    if done.returncode in _DECIDED:
        raise AssertionError(text)
    if done.returncode:
        raise ValueError(text)
    return text


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:100] or "gate"
