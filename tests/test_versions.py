"""`ETag` and `If-Match`: changing only what one has seen."""

import pytest

from collector.api.base.versions import seen, tag
from storage.errors import Stale, require_version


@pytest.mark.parametrize("if_match", ["", "*", '"7"', 'W/"7"', '"6", "7"'])
def test_who_saw_this_version_may_change_it(if_match: str) -> None:
    """So may who does not ask, and who asks only that there is something."""
    require_version(7, seen(if_match))
    require_version(7, seen(tag(7)["etag"]))


@pytest.mark.parametrize("if_match", ['"6"', '"8", "77"', '"07x"', "yesterday's"])
def test_who_saw_another_version_may_not(if_match: str) -> None:
    """The error names the version that it is by now."""
    with pytest.raises(Stale, match="version is 7"):
        require_version(7, seen(if_match))
