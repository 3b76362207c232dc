"""Records of declared tables: their statements are made of declared names, and keep to a tenant and a version."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from storage.errors import Conflict
from storage.operation.saved_views import SavedView, SavedViewText
from storage.store import Store
from tests.storing import a_store

NOW_US = 1_795_000_000_000_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Yield a store with a view of the tenant `acme`."""
    with a_store(tmp_path) as made:
        made.saved_views.create("v", text("mine"), tenant="acme", by="key", now_us=NOW_US)
        yield made


def text(name: str) -> SavedViewText:
    """Return a view of this name."""
    return SavedViewText(name=name, project=None, query="")


def the_view(store: Store) -> SavedView:
    """Return the view as it is stored."""
    (view,) = store.saved_views.find(None, "v")
    return view


@pytest.mark.parametrize("change", [{"tenant": "other"}, {"tenant": ""}, {"version": 2}, {"view_id": "w"}])
def test_a_record_is_changed_by_its_tenant_id_and_version_alone(store: Store, change: dict[str, str | int]) -> None:
    """A request with another tenant, version or id neither replaces nor deletes it."""
    view = the_view(store)
    wrong = replace(view, **change)  # type: ignore[arg-type] # of its fields
    with pytest.raises(Conflict):
        store.saved_views.replace(wrong, text("theirs"), now_us=NOW_US + 1)
    with pytest.raises(Conflict):
        store.saved_views.delete(wrong)
    assert the_view(store) == view


def test_what_a_client_writes_is_a_value(store: Store) -> None:
    """A name that is SQL is stored as it is."""
    name = "'; DROP TABLE saved_view; --"
    store.saved_views.replace(the_view(store), text(name), now_us=NOW_US + 1)
    store.saved_views.create("w", text(name), tenant="other", by=None, now_us=NOW_US)
    assert {view.name for view in store.saved_views.find(None)} == {name}
    assert (the_view(store).version, the_view(store).updated_us) == (2, NOW_US + 1)
