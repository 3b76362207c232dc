"""What real programs send is read as what they did: the score of each recording, which can only rise."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.store import Store
from tests.conventions.programs_reading import NAMES, a_store_of_programs, expectation, score_of

PAGE = Path(__file__).parents[2] / "docs" / "programs.md"
WRONG = {
    "claude-code-plain": 3,  # what its log records tell of a tool is in the trace's calls, and not on the tool's span
    "openllmetry-langchain+openai-responses": 2,  # ids of items, as they stand there
}
"""How many fields of a recording are not read right; of all others none."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A store of all recordings."""
    with a_store_of_programs(tmp_path_factory.mktemp("programs") / "data") as opened:
        yield opened


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_is_read_as_well_as_before(store: Store, name: str) -> None:
    """So many fields of a recording are read right, and no fewer; whoever mends one lowers the number."""
    score = score_of(store, name)
    assert len(score.mistakes) == WRONG.get(name, 0), "\n".join(score.mistakes)


def test_nearly_all_fields_of_real_programs_are_read_right(store: Store) -> None:
    """Of all fields of all recordings at least 98 % are what the program did."""
    scores = [score_of(store, name) for name in NAMES]
    assert sum(score.right for score in scores) >= 0.98 * sum(score.fields for score in scores)


def test_the_page_of_programs_tells_what_is_read(store: Store) -> None:
    """The page names each recording, its libraries with their versions, and how many of its fields are right."""
    scores = {name: score_of(store, name) for name in NAMES}
    rows = [
        f"| `{name}` | {', '.join(expectation(name)['library'])} | {score.right} of {score.fields} |"
        for name, score in scores.items()
    ]
    page = PAGE.read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows
    right, fields = (sum(getattr(score, name) for score in scores.values()) for name in ("right", "fields"))
    assert f"{right} of {fields} fields are right" in page
