"""A version of a dataset: its items, one of them whole, and how it differs from another version."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import ContextDep
from collector.api.offline.dataset_files import exported_version
from collector.api.offline.datasets import Number, Seen, version_seen
from collector.datasets.files import Format
from collector.experiments.report import readable_json
from collector.web.rendering import page, plain_text
from collector.web.visitor import page_router
from storage.errors import NotFound
from storage.offline.datasets import Dataset, Item, Version, VersionChange

router = page_router()

_ONE: Final = "/datasets/{dataset_id}/versions/{version}"
_PAGE_ROWS: Final = 50
_CHANGES: Final = 20  # per page: fewer than items, since each shows whole texts
_MOST_VERSIONS: Final = 200
_TEXTS: Final = ("inputs", "expected_outputs", "metadata", "source")
_PARTS: Final = (("Input", "inputs"), ("Expected", "expected"), ("Metadata", "metadata"))

ItemId = Annotated[str, Query(max_length=200)]
PageNumber = Annotated[int, Query(alias="page", ge=0, le=MAX_PAGE)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedPart:
    """A part of an item before and after; None if that version has no such item."""

    label: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownChange:
    """An item that differs between two versions, with its different parts."""

    status: Literal["ADDED", "REMOVED", "CHANGED"]
    item_id: str
    parts: Sequence[ChangedPart]


@router.get(_ONE)
@needs(Permission.READ, by_tenant=True)
def show_version(
    request: Request, dataset: Seen, version: Number, context: ContextDep, item: ItemId = "", number: PageNumber = 0
) -> Response:
    """Show the items of a version in their order, and one of them whole."""
    shown = version_seen(context, dataset, version)
    items = context.store.datasets.items(shown, first=number * _PAGE_ROWS, most=_PAGE_ROWS)
    chosen = _item(context, shown, item) if item else next(iter(items), None)
    return page(
        request,
        "dataset_version.html",
        dataset=dataset,
        version=shown,
        view="items",
        items=[(each, readable_json(each.inputs), readable_json(each.expected_outputs)) for each in items],
        chosen=chosen,
        fields=None if chosen is None else _item_fields(chosen),
        number=number,
        is_last=(number + 1) * _PAGE_ROWS >= shown.item_count,
        page_rows=_PAGE_ROWS,
    )


@router.get(_ONE + "/diff")
@needs(Permission.READ, by_tenant=True)
def show_differences(
    request: Request, dataset: Seen, version: Number, context: ContextDep, base: str = "", number: PageNumber = 0
) -> Response:
    """Show what a version adds, removes and changes against another one, by default its predecessor."""
    shown = version_seen(context, dataset, version)
    against = _base(context, dataset, shown, base)
    changes: Sequence[VersionChange] = ()
    total = 0
    if against is not None:
        changes, total = context.store.datasets.changes(against, shown, skip=number * _CHANGES, most=_CHANGES)
    return page(
        request,
        "dataset_version.html",
        dataset=dataset,
        version=shown,
        view="diff",
        base=against,
        bases=[
            each
            for each in context.store.datasets.versions(dataset, most=_MOST_VERSIONS)
            if each.version != shown.version
        ],
        changes=[_shown(each) for each in changes],
        total=total,
        number=number,
        is_last=(number + 1) * _CHANGES >= total,
    )


@router.get(_ONE + "/export")
@needs(Permission.READ, by_tenant=True)
def export_version(
    dataset: Seen, version: Number, context: ContextDep, form: Annotated[Format, Query(alias="format")] = "jsonl"
) -> Response:
    """Export the version as a file."""
    return exported_version(context, dataset, version_seen(context, dataset, version), form)


@router.get(_ONE + "/text")
@needs(Permission.READ, by_tenant=True)
def show_text(dataset: Seen, version: Number, context: ContextDep, item: ItemId, of: str = "inputs") -> Response:
    """Show the whole of a text that the item's page cuts."""
    if of not in _TEXTS:
        raise HTTPException(404, "there is no such text here")
    row = _item(context, version_seen(context, dataset, version), item)
    return plain_text(getattr(row, of) or "")


def _item(context: Context, version: Version, item_id: str) -> Item:
    items = context.store.datasets.items_by_id(version, [item_id])
    if not items:
        raise NotFound("this version has no such item")
    return items[0]


def _base(context: Context, dataset: Dataset, version: Version, base: str) -> Version | None:
    if base.isdecimal() and len(base) < 10:  # noqa: PLR2004 - digits of a number that a version may have
        return version_seen(context, dataset, base)
    return version_seen(context, dataset, str(version.version - 1)) if version.version > 1 else None


def _item_fields(item: Item) -> Mapping[str, Any]:
    source = None if item.source is None else json.loads(item.source)
    return {
        "inputs": _plain(item.inputs),
        "expected": _plain(item.expected_outputs),
        "metadata": json.loads(item.metadata),
        "source": source if isinstance(source, dict) else None,
    }


def _shown(change: VersionChange) -> ShownChange:
    """Return an item's parts that differ; if only one version has the item, all its parts that are not empty."""
    parts = []
    for label, name in _PARTS:
        before, after = (getattr(change, f"{name}_{when}") for when in ("before", "after"))
        is_shown = before != after if change.status == "CHANGED" else (before or after) not in {None, "{}"}
        if is_shown:
            parts.append(ChangedPart(label=label, before=_plain(before), after=_plain(after)))
    return ShownChange(status=change.status, item_id=change.item_id, parts=parts)


def _plain(text: str | None) -> object:
    """Parse a map for display: a map with one value becomes that value, an empty one None."""
    if text is None:
        return None
    value = json.loads(text)
    if not value:
        return None
    return next(iter(value.values())) if isinstance(value, dict) and len(value) == 1 else value
