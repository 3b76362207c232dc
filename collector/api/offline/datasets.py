"""Datasets over HTTP: descriptions, versions, items, and differences."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.api.base.exact_json import body_of, json_body
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import PARTED, At, Part
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, created, require_seen, shown
from collector.api.responses.declaration import response_model
from collector.api.responses.offline import (
    ChangedItem,
    ChangedItemPage,
    DatasetDetail,
    DatasetDocument,
    ItemDocument,
    ItemPage,
    VersionDocument,
)
from collector.datasets.item import BadItem, ItemMaker, read_item
from collector.datasets.schema import AgainstSchema, schema_text, schemas_of
from collector.path_names import path_segment
from evaluators.tool_schema import BadSchema
from storage.errors import BadQuery, Conflict, NotFound
from storage.offline.datasets import Dataset, DatasetText, Mode, Version

router = api_router(prefix="/api/v1/datasets")

_ONE = "/{dataset_id}"
_VERSION = _ONE + "/versions/{version}"

NAME_PATTERN = r"^[^\s@/\x00-\x1f\x7f]([^@/\x00-\x1f\x7f]{0,198}[^\s@/\x00-\x1f\x7f])?$"
_MOST_VERSIONS = 1_000

MOST_CHARACTERS = 2_000  # of a description; a guess

Tag = Annotated[str, Field(min_length=1, max_length=100)]
Description = Annotated[str, Field(max_length=MOST_CHARACTERS)]


class DatasetChange(BaseModel):
    """Description, tags and schemas of a dataset."""

    model_config = ConfigDict(extra="forbid")

    description: Description = ""
    tags: list[Tag] = Field(default=[], max_length=50)
    inputSchema: dict[str, Any] | None = None
    expectedOutputSchema: dict[str, Any] | None = None

    def text(self) -> DatasetText:
        """Return the description, tags and schemas as they are stored.

        Raises:
            BadQuery: a schema is invalid.
        """
        try:
            return DatasetText(
                description=self.description,
                tags=tuple(dict.fromkeys(self.tags)),
                input_schema=schema_text(self.inputSchema),
                expected_schema=schema_text(self.expectedOutputSchema),
            )
        except BadSchema as error:
            raise BadQuery(f"the schema: {error}") from None


class NewDataset(DatasetChange):
    """A dataset that is to be made. Its name is that of `dataset://NAME@VERSION`."""

    name: str = Field(pattern=NAME_PATTERN)


class NewVersion(BaseModel):
    """The items of a version: all of them, or with `append` those that are added to the version before."""

    model_config = ConfigDict(extra="forbid")

    description: Description = ""
    mode: Mode = "replace"
    items: list[dict[str, Any]] = Field(min_length=1)


def _seen(dataset_id: str, context: ContextDep, caller: CallerDep) -> Dataset:
    return dataset_seen(context, caller, dataset_id)


def _own(dataset: Annotated[Dataset, Depends(_seen)], caller: CallerDep) -> Dataset:
    refuse_shared(caller, dataset.tenant, f"the dataset {dataset.name!r}")
    return dataset


Seen = Annotated[Dataset, Depends(_seen)]
"""The dataset that the path names, by its name or its id."""

Own = Annotated[Dataset, Depends(_own)]
"""A dataset that the caller may change."""

Created = Annotated[NewDataset, Depends(json_body(NewDataset))]
Changed = Annotated[DatasetChange, Depends(json_body(DatasetChange))]
Versioned = Annotated[NewVersion, Depends(json_body(NewVersion))]


_NUMBER = "^(latest|[1-9][0-9]{0,8})$"
Number = Annotated[str, Path(pattern=_NUMBER, description="A number, or `latest`.")]
"""The version that a path names."""


def dataset_seen(context: Context, caller: Caller, key: str) -> Dataset:
    """Return the dataset with that name or id; the caller's own before the shared one.

    Raises:
        NotFound: the caller sees no such dataset.
        Conflict: several tenants have a dataset of that name, and the caller sees all of them.
    """
    matches = context.store.datasets.named(caller.visible_tenant, key)
    for tenant in (caller.tenant, ""):
        for each in matches:
            if each.tenant == tenant:
                return each
    if len(matches) > 1:
        raise Conflict(f"several tenants have a dataset {key!r}: name it by its id")
    if not matches:
        raise NotFound(f"there is no dataset {key!r} here")
    return matches[0]


def version_seen(context: Context, dataset: Dataset, number: str) -> Version:
    """Return a version by its number, or `latest`.

    Raises:
        NotFound: the dataset has no such version.
    """
    versions = context.store.datasets.versions(dataset, version=None if number == "latest" else int(number))
    if not versions:
        raise NotFound(f"the dataset {dataset.name!r} has no version {number}")
    return versions[0]


@router.get("", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[DatasetDocument])
def list_all(context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List datasets by name."""
    return part.answer(context.store.datasets.all(caller.visible_tenant), DatasetDocument.of)


@router.post("", status_code=HTTPStatus.CREATED, responses=TAGGED_NEW, openapi_extra=body_of(NewDataset))
@needs(Permission.WRITE, by_tenant=True)
@response_model(DatasetDocument)
def create(body: Created, context: ContextDep, caller: CallerDep) -> Response:
    """Make a dataset, which has no version yet."""
    made = context.store.datasets.create(caller.tenant, body.name, body.text(), now_us=context.now_ns() // 1000)
    return created(DatasetDocument.of(made), made.version, at=f"/api/v1/datasets/{path_segment(made.name)}")


@router.get(_ONE, responses=TAGGED)
@needs(Permission.READ, by_tenant=True)
@response_model(DatasetDetail)
def show(dataset: Seen, context: ContextDep) -> Response:
    """Return a dataset with its latest 1,000 versions, newest first."""
    versions = context.store.datasets.versions(dataset, most=_MOST_VERSIONS)
    documents = [_version_document(dataset, each) for each in versions]
    return shown(DatasetDetail.of(dataset, versions=documents), dataset.version)


@router.put(_ONE, responses=TAGGED | GUARDED, openapi_extra=body_of(DatasetChange))
@needs(Permission.WRITE, by_tenant=True)
@response_model(DatasetDocument)
def put(dataset: Own, body: Changed, context: ContextDep, if_match: IfMatch = "") -> Response:
    """Replace the fields of a dataset. Only versions that are made later must match a new schema."""
    require_seen(dataset.version, if_match)
    changed = context.store.datasets.change(dataset, body.text(), now_us=context.now_ns() // 1000)
    return shown(DatasetDocument.of(changed), changed.version)


@router.delete(_ONE, status_code=HTTPStatus.NO_CONTENT, responses=GUARDED)
@needs(Permission.WRITE, by_tenant=True)
def delete(dataset: Own, context: ContextDep, if_match: IfMatch = "") -> Response:
    """Delete a dataset with all versions; runs that used it stay."""
    require_seen(dataset.version, if_match)
    context.store.datasets.delete(dataset, now_us=context.now_ns() // 1000)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(_ONE + "/versions", status_code=HTTPStatus.CREATED, openapi_extra=body_of(NewVersion))
@needs(Permission.WRITE, by_tenant=True)
@response_model(VersionDocument, 200)
def add_version(dataset: Own, body: Versioned, context: ContextDep, caller: CallerDep) -> Response:
    """Make a version of these items. If the latest one has the same items, it is returned (200)."""
    maker = maker_of(context, dataset)
    items = []
    for number, document in enumerate(body.items):
        try:
            items.append(maker.make(read_item(document)))
        except (BadItem, AgainstSchema) as error:
            raise BadQuery(f"items[{number}]: {error}") from None
    now_us = context.now_ns() // 1000
    table = context.store.datasets.add_items(dataset, items, now_us=now_us)
    made = context.store.datasets.add_version(
        dataset, table, mode=body.mode, description=body.description, created_by=caller.key_name, now_us=now_us
    )
    return version_answer(dataset, made)


@router.get(_VERSION)
@needs(Permission.READ, by_tenant=True)
@response_model(VersionDocument)
def show_version(dataset: Seen, version: Number, context: ContextDep) -> Response:
    """Return a version by its number, or `latest`."""
    return json_response(_version_document(dataset, version_seen(context, dataset, version)))


@router.get(_VERSION + "/items")
@needs(Permission.READ, by_tenant=True)
@response_model(ItemPage)
def list_items(
    dataset: Seen,
    version: Number,
    context: ContextDep,
    at: At,
) -> Response:
    """List the items of a version in their order."""
    stored = version_seen(context, dataset, version)
    items = context.store.datasets.items(stored, first=at.page * at.size, most=at.size + 1)
    documents = [ItemDocument.of(each) for each in items]
    return json_response(ItemPage.page(documents, at.page, at.size, total_elements=stored.item_count))


@router.get(_VERSION + "/diff")
@needs(Permission.READ, by_tenant=True)
@response_model(ChangedItemPage)
def list_changes(
    dataset: Seen,
    version: Number,
    context: ContextDep,
    at: At,
    base: Annotated[
        str | None, Query(pattern=_NUMBER, description="The version to compare with; the one before by default.")
    ] = None,
) -> Response:
    """List the items that a version adds, removes and changes compared with another one."""
    later = version_seen(context, dataset, version)
    earlier = version_seen(context, dataset, str(later.version - 1) if base is None else base)
    changes, total = context.store.datasets.changes(earlier, later, skip=at.page * at.size, most=at.size + 1)
    documents = [ChangedItem.of(each) for each in changes]
    numbers = {"base": earlier.version, "version": later.version, "total_elements": total}
    return json_response(ChangedItemPage.page(documents, at.page, at.size, **numbers))


def maker_of(context: Context, dataset: Dataset) -> ItemMaker:
    """Return the factory for items of the next version."""
    return ItemMaker(schemas=schemas_of(dataset.input_schema, dataset.expected_schema), redact=context.redact)


def version_answer(
    dataset: Dataset, made: tuple[Version, bool], kind: type[VersionDocument] = VersionDocument, **more: object
) -> Response:
    """Return a response with a version; 201 if it is new."""
    version, is_new = made
    return json_response(
        _version_document(dataset, version, kind, **more),
        status=HTTPStatus.CREATED if is_new else HTTPStatus.OK,
        headers={"location": f"/api/v1/datasets/{path_segment(dataset.name)}/versions/{version.version}"},
    )


def _version_document(
    dataset: Dataset, version: Version, kind: type[VersionDocument] = VersionDocument, **more: object
) -> VersionDocument:
    return kind.of(version, dataset, id=f"{dataset.dataset_id}@{version.version}", **more)
