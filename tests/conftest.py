"""What all tests share: how hypothesis searches, and where other randomness begins."""

import random

import pytest
from hypothesis import HealthCheck, settings

# The machine is shared with a server under load, so slowness proves nothing here; pytest-timeout catches a hang.
settings.register_profile("tracejury", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tracejury")


@pytest.fixture
def seed() -> int:
    """Printed, so that a failure can be had again."""
    number = random.SystemRandom().randrange(1 << 32)
    print(f"seed {number}")  # noqa: T201 - pytest shows it with the failure
    return number
