"""What all tests share: how hypothesis searches."""

from hypothesis import HealthCheck, settings

# The machine is shared with a server under load, so slowness proves nothing here; pytest-timeout catches a hang.
settings.register_profile("tracejury", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tracejury")
