"""The worked example of the README runs: a lenient judge, a hundred votes, the report before and after."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.offline import an_offline_server
from tests.paging import Visit
from tests.source_tree import ROOT

pytestmark = pytest.mark.costly(
    "collector/api", "collector/live", "collector/otlp", "docs/examples", "evaluators", "rules", "storage"
)

SCRIPT = ROOT / "docs" / "examples" / "biased_judge.py"


def test_the_example_of_the_readme_runs(tmp_path: Path) -> None:
    """It prints the README's output, the truth lies inside the corrected interval, and the page has both."""
    with an_offline_server(tmp_path / "data") as api:
        done = subprocess.run(
            [sys.executable, str(SCRIPT), api.url], capture_output=True, text=True, timeout=180, check=False
        )
        assert done.returncode == 0, done.stderr
        shown = (ROOT / "README.md").read_text(encoding="utf-8").partition("biased_judge.py\n")[2].partition("```")[0]
        output = done.stdout.splitlines()
        assert shown.splitlines()[:-1] == output[:-1]
        project = output[-1].rpartition("=")[2]
        with Visit(api.url) as visit:
            page = visit.get(f"/quality?project={project}").text
        assert "80.0 %" in page
        assert "70.0 %" in page
