"""One word for each of a verdict below its threshold, no verdict, and a job that gave up."""

import re
from pathlib import Path

import pytest

from collector.result_labels import job_word, result_word

COLLECTOR = Path(__file__).parent.parent / "collector"
OWN_WORDS = re.compile(r"""["']failed["'] if|else ["']failed["']|["']no verdict["']""")


@pytest.mark.parametrize(
    "outcome,passed,word",
    [
        ("scored", True, "passed"),
        ("scored", False, "failed"),
        ("scored", None, "scored"),
        ("failed", None, "no verdict"),
        ("not_passed", None, "failed"),
        ("not_evaluated", None, "no verdict"),
        ("over_budget", None, "over budget"),
    ],
)
def test_a_result_has_one_word(outcome: str, passed: bool | None, word: str) -> None:  # noqa: FBT001 - a parameter
    """Only a verdict below its threshold is called failed."""
    assert result_word(outcome, passed) == word


def test_a_job_that_failed_gave_up() -> None:
    """The state of a job is not a verdict."""
    assert (job_word("failed"), job_word("waiting")) == ("gave up", "waiting")


@pytest.mark.parametrize("folder,kind", [("web/templates", "*.html"), ("cli", "*.py"), ("mcp", "*.py")])
def test_the_words_are_declared_once(folder: str, kind: str) -> None:
    """Pages, commands and MCP spell none of these words for a result themselves."""
    files = [*(COLLECTOR / folder).rglob(kind)]
    assert files
    spelled = {path.name: OWN_WORDS.findall(path.read_text(encoding="utf-8")) for path in files}
    assert {name: words for name, words in spelled.items() if words} == {}
