"""The number of examples of properties."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.changed import PARTS, Changes
from tests.source_tree import ROOT
from tests.trying import SOAK, tried, try_often


@pytest.mark.parametrize(
    "profile, changed, examples",
    [
        ("tracejury", None, 40),
        ("tracejury", frozenset(), 10),
        ("tracejury", frozenset({"tests/trying.py"}), 40),
        ("tracejury", frozenset({"docs/api.md"}), 10),
        (SOAK, None, 400),
    ],
)
def test_examples_follow_the_change(profile: str, changed: frozenset[str] | None, examples: int) -> None:
    """There are 10, 40 or 400, a test's own number is scaled by the same factor, and only once for all parameters."""

    @given(st.none())
    def default(_: None) -> None: ...

    @tried(7)
    @given(st.none())
    def own(_: None) -> None: ...

    items = [SimpleNamespace(obj=each, path=ROOT / "tests" / "test_trying.py") for each in (default, own, own)]
    changes = None if changed is None else Changes(ROOT, {}, dict.fromkeys(PARTS, changed))
    before = settings.get_current_profile_name()
    try:
        settings.load_profile(profile)
        try_often(cast("Any", items), changes)
    finally:
        settings.load_profile(before)
    numbers = [cast("Any", each)._hypothesis_internal_use_settings.max_examples for each in (default, own)]
    assert numbers == [examples, {10: 2, 40: 7, 400: 70}[examples]]


def test_fewer_examples_are_really_tried() -> None:
    """Hypothesis reads the number where `try_often` writes it."""
    seen = []

    @settings(max_examples=20)
    @given(st.integers())
    def own(value: int) -> None:
        seen.append(value)

    item = SimpleNamespace(obj=own, path=ROOT / "tests" / "test_trying.py")
    try_often(cast("Any", [item]), Changes(ROOT, {}, dict.fromkeys(PARTS, frozenset[str]())))
    own()
    assert len(seen) == 5
