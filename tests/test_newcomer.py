"""The page that leads from a failure to a test, followed word for word with the SDK as installed from its wheel."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live import a_live_server
from tests.source_tree import ROOT

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/cli",
    "collector/experiment_runner",
    "collector/conventions",
    "collector/datasets",
    "collector/listeners",
    "collector/evaluation",
    "collector/experiments",
    "collector/gating",
    "collector/ingest.py",
    "collector/otlp",
    "collector/reading",
    "docs",
    "evaluators",
    "rules/statistics",
    "sdk",
    "storage",
)

PAGE = (ROOT / "docs" / "from-failure-to-test.md").read_text(encoding="utf-8")
SERVER = "http://127.0.0.1:8080"
END = "--- step"
PRELUDE = """set -e
tracejury() {
    if [ "$1" = sql ]; then  # a person takes longer than spans do to become traces
        until [ "$(command tracejury "$@" --server URL | wc -l)" -gt 1 ]; do sleep 0.2; done
    fi
    command tracejury "$@" --server URL
}
"""


def steps() -> list[tuple[str, str]]:
    """Return each step: the text to type, with the files written before it, and the expected output."""
    steps_read: list[tuple[str, str]] = []
    for kind, text in re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        if kind == "python":
            name = text.partition("\n")[0].removeprefix("# ")
            steps_read.append((f"cat > {name} <<'FILE'\n{text}FILE\n", ""))
        elif kind == "sh":
            steps_read.append((text, ""))
        else:
            steps_read[-1] = (steps_read[-1][0], text)
    return steps_read


def installed(folder: Path) -> Path:
    """Return a folder with what the SDK's wheel holds, and the plugin that pytest finds by it."""
    wheel = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder / "wheel")]
    subprocess.run([*wheel, str(ROOT / "sdk" / "python")], check=True, capture_output=True, timeout=120)
    (made,) = (folder / "wheel").glob("*.whl")
    uv = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--offline", "--no-deps"]
    subprocess.run([*uv, "--target", str(folder / "site"), str(made)], check=True, capture_output=True, timeout=120)
    return folder / "site"


def follow(folder: Path, site: Path, url: str) -> list[str]:
    """Type the steps one after the other; return the output of each."""
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("TRACEJURY", "PYTEST", "OTEL"))
    }
    path = f"{Path(sys.executable).parent}:{environ['PATH']}"
    environ |= {"PYTHONPATH": str(site), "HOME": str(folder), "PATH": path, "COLUMNS": "120"}
    environ |= {"PYTEST_ADDOPTS": "-p no:cacheprovider -p no:schemathesis"}
    script = PRELUDE.replace("URL", url) + "".join(
        f"{text.replace(SERVER, url)}\necho '{END}'\n" for text, _ in steps()
    )
    done = subprocess.run(
        ["bash"], input=script, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split(f"{END}\n")[:-1]


def test_a_newcomer_gets_from_a_failure_to_a_passing_test(tmp_path: Path) -> None:
    """Each step shows what the page says; the runs are those of one experiment, and the case names its trace."""
    site = installed(tmp_path)
    work = tmp_path / "work"
    work.mkdir()
    with a_live_server(tmp_path / "data") as server:
        shown_by_step = follow(work, site, server.http)
        for (typed, shown), actual in zip(steps(), shown_by_step, strict=True):
            for line in shown.splitlines():
                pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
                assert re.search(pattern, actual), f"{typed}\nshows\n{actual}\nand not\n{line}"
        rates = server.sql("SELECT pass_rate FROM runs ORDER BY started_at")
        assert [f"{rate:.2f}" for (rate,) in rates] == ["0.67", "0.67", "1.00", "1.00"]
        linked = server.sql(
            "SELECT DISTINCT i.trace_id FROM run_items i JOIN spans s USING (trace_id) WHERE s.name = 'answer'"
        )
        assert len(linked) == 12
