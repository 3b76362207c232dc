"""How often properties are tried."""

from hypothesis import settings

from tests.trying import SOAK, tried


def test_a_soak_tries_ten_times_as_many_examples() -> None:
    """What names its own number of examples has more of them before a release too."""
    before = settings.get_current_profile_name()
    try:
        found = []
        for profile in ("tracejury", SOAK):
            settings.load_profile(profile)
            found.append(tried(7).max_examples)
    finally:
        settings.load_profile(before)
    assert found == [7, 70]
