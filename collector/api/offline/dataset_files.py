"""Import and export of datasets over HTTP, both streamed."""

import asyncio
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Final

from fastapi import Depends, Query, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.streamed import streamed
from collector.api.offline.datasets import MOST_CHARACTERS, Number, Own, Seen, maker_of, version_answer, version_seen
from collector.api.responses.declaration import response_model
from collector.api.responses.offline import ImportedVersion
from collector.datasets.export import export_items
from collector.datasets.files import MEDIA_TYPES, Format, read_items
from collector.datasets.item import ItemMaker
from collector.spreadsheet import is_formula
from storage.errors import BadQuery, Conflict, Overloaded
from storage.limit import Limit
from storage.offline.datasets import Dataset, Mode, NewItem, Version
from storage.query.concurrency_limit import Places
from tracejury.dataset_text import BadFile, ItemText

router = api_router(prefix="/api/v1/datasets/{dataset_id}")

_DESCRIPTION: Final = Limit(value=MOST_CHARACTERS, unit="characters", remedy="shorten it")
_imports = Places(4, "imports", retry_after_s=5)
"""At most four imports at a time, two of them for one client. A guess: after the upload, each takes one processor."""

_MOST_PLACES: Final = 100  # skipped rows that a response lists; a guess

_LOOK_S: Final = 0.5  # between two checks whether the client has disconnected; a guess

_FILE: Final = {
    "requestBody": {
        "required": True,
        "content": {name: {"schema": {"type": "string", "format": "binary"}} for name in MEDIA_TYPES},
    }
}
_SUFFIX: Final = {form: name for name, form in reversed([*MEDIA_TYPES.items()])}


class _Import:
    """Parameters of an import."""

    def __init__(
        self,
        form: Annotated[Format | None, Query(alias="format", description="By default as `Content-Type` says.")] = None,
        mode: Mode = "replace",
        description: Annotated[
            str, Query(max_length=MOST_CHARACTERS, description="By default that of the file, if it is JSON.")
        ] = "",
    ) -> None:
        self.form, self.mode, self.description = form, mode, description
        self.left_out: list[str] = []

    def described(self, text: str) -> None:
        """Take the description from the file, unless the request has one."""
        if len(text) > MOST_CHARACTERS and not self.description:
            size = f"{len(text):,} characters"
            raise BadFile(f"description: {size}, and it may have {_DESCRIPTION}")
        self.description = self.description or text


@router.post("/import", status_code=HTTPStatus.CREATED, openapi_extra=_FILE)
@needs(Permission.WRITE, by_tenant=True, takes_files=True)
@response_model(ImportedVersion, 200)
async def import_file(
    dataset: Own, request: Request, context: ContextDep, caller: CallerDep, options: Annotated[_Import, Depends()]
) -> Response:
    """Make a version of the items in a file. If the latest one has the same items, it is returned (200)."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    form = options.form or MEDIA_TYPES.get(kind)
    if form is None:
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"send one of {', '.join(MEDIA_TYPES)}, or a format")
    with _imports.take(caller.client), tempfile.TemporaryFile(dir=context.settings.data) as file:
        try:
            async for chunk in request.stream():
                await run_in_threadpool(file.write, chunk)
        except OSError as error:
            raise Overloaded(f"the uploaded file cannot be stored: {error.strerror}", retry_after_s=30) from error
        file.seek(0)
        is_over = threading.Event()
        watching = asyncio.create_task(_set_once_left(request, is_over))
        texts = read_items(file, form, options.described, options.left_out.append)
        items = _items(texts, maker_of(context, dataset), is_over)
        try:
            return await run_in_threadpool(_imported, context, caller.key_name, dataset, items, options)
        finally:  # also if the server stops
            is_over.set()
            watching.cancel()


async def _set_once_left(request: Request, is_over: threading.Event) -> None:
    while not await request.is_disconnected():  # noqa: ASYNC110 - nothing reports a disconnect
        await asyncio.sleep(_LOOK_S)
    is_over.set()


def _imported(
    context: Context, by: str | None, dataset: Dataset, new_items: Iterator[NewItem], options: _Import
) -> Response:
    now_us = context.now_ns() // 1000
    try:
        items = context.store.datasets.add_items(dataset, new_items, now_us=now_us)
    except BadFile as error:
        raise BadQuery(str(error)) from None
    made = context.store.datasets.add_version(
        dataset, items, mode=options.mode, description=options.description, created_by=by, now_us=now_us
    )
    places = options.left_out
    return version_answer(dataset, made, ImportedVersion, left_out=len(places), left_out_places=places[:_MOST_PLACES])


def _items(texts: Iterator[tuple[str, ItemText]], maker: ItemMaker, is_over: threading.Event) -> Iterator[NewItem]:
    for place, text in texts:
        if is_over.is_set():
            raise BadFile(f"{place}: the client left, or the server stopped; send the file again")
        try:
            yield maker.make(text)
        except ValueError as error:
            raise BadFile(f"{place}: {error}") from None


@router.get(
    "/versions/{version}/export",
    responses={200: {"content": {name: {"schema": {"type": "string", "format": "binary"}} for name in MEDIA_TYPES}}},
    response_class=Response,
)
@needs(Permission.READ, by_tenant=True)
def export(
    dataset: Seen, version: Number, context: ContextDep, form: Annotated[Format, Query(alias="format")] = "jsonl"
) -> Response:
    """Export a version as a file; imported again, it is the same version."""
    return exported_version(context, dataset, version_seen(context, dataset, version), form)


def exported_version(context: Context, dataset: Dataset, version: Version, form: Format) -> Response:
    """Return a version as a file in one of its formats.

    Raises:
        Conflict: the version cannot be written as CSV.
    """
    if form == "csv":
        wrong = next(
            (each.item_id for each in context.store.datasets.every_item(version) if is_formula(each.item_id)), None
        )
        if wrong is not None:
            raise Conflict(f"a spreadsheet would compute the id {wrong!r}: export another format than CSV")
    name = f"{dataset.dataset_id}-{version.version}.{form}"
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    described = replace(dataset, description=version.description or dataset.description)
    pieces = export_items(described, context.store.datasets.every_item(version), form)
    return streamed(pieces, media_type=_SUFFIX[form], headers=headers)
