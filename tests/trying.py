"""How many examples hypothesis makes up for what costs much: some in each run of the suite, and more in `make soak`."""

from typing import Final

from hypothesis import settings

SOAK: Final = "soak"
"""The profile of settings that `make soak` asks for."""
_MORE: Final = 10


def tried(examples: int) -> settings:
    """So many examples, and ten times as many in `make soak`, since other ones are made up in each run."""
    return settings(max_examples=examples * _MORE if settings.get_current_profile_name() == SOAK else examples)
