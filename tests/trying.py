"""The number of hypothesis examples: fewer if nothing that a test builds on has changed, and more in a soak."""

from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

from tests.changed import Changes
from tests.source_tree import ROOT

SOAK: Final = "soak"
"""The profile of settings that `make soak-property` asks for."""
MORE: Final = 10
FEWER: Final = 4


def tried(examples: int) -> settings:
    """Return settings of `examples` examples, which `try_often` scales like all others."""
    return settings(max_examples=examples)


def try_often(items: Iterable[pytest.Item], changes: Changes | None) -> None:
    """Scale the number of examples of each property: 40 become 10, stay 40, or become 400."""
    soaking = settings.get_current_profile_name() == SOAK
    functions: dict[int, tuple[Any, str]] = {}
    for item in items:
        function = getattr(item, "obj", None)
        if getattr(function, "is_hypothesis_test", False):
            functions[id(function)] = (function, str(item.path.relative_to(ROOT)))
    for function, file in functions.values():
        # The attribute is what hypothesis' own plugin for pytest reads; a second `@settings` is refused.
        own: settings | None = getattr(function, "_hypothesis_internal_use_settings", None)
        if own is None:
            continue
        if soaking:
            function._hypothesis_internal_use_settings = settings(own, max_examples=own.max_examples * MORE)
        elif changes is not None and not changes.concern("property", file):
            function._hypothesis_internal_use_settings = settings(own, max_examples=-(-own.max_examples // FEWER))
