"""What real programs send is read as what they did: the score of each recording, which can only rise."""

from collections.abc import Iterator

import pytest

from storage.store import Store
from tests.conventions.programs_reading import NAMES, a_store_of_programs, score_of

WRONG = {
    "claude-code-plain": 3,
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
