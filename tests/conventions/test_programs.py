"""Spans of real programs are read correctly: the score of each recording, which can only rise."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.store import Store
from tests.conventions.programs_reading import PROGRAMS, WRONG, Score, a_store_of_programs, rows_of, score_of, total
from tests.storing import rows

PAGE = Path(__file__).parents[2] / "docs" / "programs.md"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store of all recordings."""
    with a_store_of_programs(tmp_path_factory.mktemp("programs") / "data") as opened:
        yield opened


@pytest.fixture(scope="module")
def scores(store: Store) -> dict[str, Score]:
    """Return the score of each recording."""
    return {name: score_of(store, name) for name in PROGRAMS}


@pytest.mark.costly("collector/conventions", "collector/otlp", "collector/reading", "storage/ingest")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recording_is_read_as_well_as_before(scores: dict[str, Score], name: str) -> None:
    """So many fields of a recording are read right, and no fewer; a fix lowers the number."""
    assert len(scores[name].mistakes) == WRONG.get(name, 0), "\n".join(scores[name].mistakes)


def test_the_numbers_are_of_recordings() -> None:
    """Every number belongs to an existing recording."""
    assert WRONG.keys() <= PROGRAMS.keys()


def test_nearly_all_fields_of_real_programs_are_read_right(scores: dict[str, Score]) -> None:
    """Of all fields of all recordings at least 97 % are what the program did."""
    every = scores.values()
    assert sum(score.right for score in every) >= 0.97 * sum(score.fields for score in every)


def test_answers_that_were_cut_off_are_found(store: Store) -> None:
    """In SQL, by the reason that the program of one recording met: of the span and of its trace."""
    for view in ("spans", "traces"):
        stored = rows(store, f"SELECT DISTINCT tenant FROM {view} WHERE finish_reason = 'length'")
        assert stored == [("oi-openai.cut.a77e",)]


def test_the_page_of_programs_tells_what_is_read(scores: dict[str, Score]) -> None:
    """The page names each program, its libraries with their versions, and how many of its fields are right."""
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| `.* \d+ of \d+ \|$", page, re.MULTILINE) == rows_of(scores)
    assert f"{total([*scores.values()])} fields are right" in page
