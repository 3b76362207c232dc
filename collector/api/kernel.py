"""Resources: records that clients create, replace and delete. Routes follow from one declaration each."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from http import HTTPStatus
from types import GenericAlias
from typing import Annotated, Any, Generic, NamedTuple, TypeAlias, TypedDict, TypeVar, cast

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, refuse_shared, tenant_of
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import PARTED, Part
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, require_seen, tag
from collector.api.responses.declaration import response_model
from storage.errors import NotFound

Row = TypeVar("Row")
Body = TypeVar("Body")
Endpoint = TypeVar("Endpoint", bound=Callable[..., object])
AnyRow: TypeAlias = Any
"""A record of any resource."""
AnyBody: TypeAlias = Any
"""The type of a request body."""


class Creation(TypedDict):
    """Values that the server adds to a new record."""

    tenant: str
    by: str | None  # the name of a key
    now_us: int


class Operation(NamedTuple):
    """A route of a resource: its name in the OpenAPI document, and its description there."""

    name: str
    description: str


@dataclass(frozen=True, kw_only=True)
class Resource(Generic[Row, Body]):
    """The declaration of a resource.

    Only declared operations have routes. Records of a resource with `showing` have a version, which is their ETag.
    """

    module: str  # the declaring module; the OpenAPI document derives the tag from it
    path: str  # of the list
    kind: str  # the noun in messages
    key: str  # the field of a record that is its id, and the parameter of a path
    longest_key: int | None = 100
    body: Any  # the type of what clients write, or an annotation that reads it
    body_schema: dict[str, Any] | None = None  # if `body` is an annotation without a schema
    document: Any  # the type of an answer
    read: Permission = Permission.READ
    write: Permission = Permission.WRITE
    find: Callable[[Context, str | None, str | None], Sequence[Row]]  # by tenant (plus shared; None: all), and id
    create: Callable[[Context, str, Body, Creation], Row | None]  # None: look it up
    replace: Callable[[Context, Row, Body], None] | None = None
    delete: Callable[[Context, Row], None]
    show: Callable[[Row, Caller], object]  # as a document
    title: Callable[[Row], str] = lambda row: repr(row.name)  # type: ignore[attr-defined] # of named records
    missing: str = "there is no {kind} {id}"
    listing: Operation
    creating: Operation
    showing: Operation | None = None
    replacing: Operation | None = None
    deleting: Operation

    def one(self, context: Context, caller: Caller, record_id: str) -> Row:
        """Return a record that the caller sees.

        Raises:
            NotFound: the caller sees no such record.
        """
        for row in self.find(context, caller.visible_tenant, record_id):
            return row
        raise NotFound(self.missing.format(kind=self.kind, id=record_id))

    def again(self, context: Context, record_id: str) -> Row:
        """Return a record that was stored just now.

        Raises:
            NotFound: the record was deleted meanwhile.
        """
        for row in self.find(context, None, record_id):
            return row
        raise NotFound(f"the {self.kind} was deleted meanwhile")

    def add(self, context: Context, body: Body, *, tenant: str, by: str | None) -> Row:
        """Create a record."""
        record_id, now_us = uuid.uuid4().hex, context.now_ns() // 1000
        made = self.create(context, record_id, body, Creation(tenant=tenant, by=by, now_us=now_us))
        return made or self.again(context, record_id)

    @cached_property
    def seen(self) -> Callable[..., Row]:
        """Return the dependency of a route whose path names a record that the caller sees."""

        def seen(
            record_id: Annotated[str, Path(alias=self.key, max_length=self.longest_key)],
            context: ContextDep,
            caller: CallerDep,
        ) -> Row:
            return self.one(context, caller, record_id)

        return seen

    @cached_property
    def own(self) -> Callable[..., Row]:
        """Return the dependency of a route whose path names a record that the caller may change."""

        def own(row: Annotated[AnyRow, Depends(self.seen)], caller: CallerDep) -> Row:
            refuse_shared(caller, row.tenant, f"the {self.kind} {self.title(row)}")
            return cast("Row", row)

        return own


def router_of(resource: Resource[Any, Any]) -> APIRouter:
    """Make the routes that a resource declares."""
    router = api_router(prefix=resource.path)
    for add in (_list, _create, _show, _replace, _delete):
        add(router, resource)
    return router


def _list(router: APIRouter, resource: Resource[Any, Any]) -> None:
    @router.get("", responses=PARTED)
    @_declared(resource, resource.listing, resource.read, GenericAlias(list, resource.document))
    def list_records(context: ContextDep, caller: CallerDep, part: Part) -> Response:
        return part.answer(resource.find(context, caller.visible_tenant, None), lambda row: resource.show(row, caller))


def _create(router: APIRouter, resource: Resource[Any, Any]) -> None:
    def create_record(body: AnyBody, context: ContextDep, caller: CallerDep, tenant: Tenant = None) -> Response:
        row = resource.add(context, body, tenant=tenant_of(caller, tenant), by=caller.key_name)
        headers = (
            tag(row.version) | {"location": f"{resource.path}/{getattr(row, resource.key)}"} if resource.showing else {}
        )
        return json_response(resource.show(row, caller), status=HTTPStatus.CREATED, headers=headers)

    create_record.__annotations__["body"] = resource.body
    endpoint = _declared(resource, resource.creating, resource.write, resource.document)(create_record)
    responses = TAGGED_NEW if resource.showing else None
    router.post("", status_code=HTTPStatus.CREATED, responses=responses, openapi_extra=resource.body_schema)(endpoint)


def _show(router: APIRouter, resource: Resource[Any, Any]) -> None:
    if resource.showing is None:
        return

    @router.get(f"/{{{resource.key}}}", responses=TAGGED)
    @_declared(resource, resource.showing, resource.read, resource.document)
    def show_record(row: Annotated[AnyRow, Depends(resource.seen)], caller: CallerDep) -> Response:
        return json_response(resource.show(row, caller), headers=tag(row.version))


def _replace(router: APIRouter, resource: Resource[Any, Any]) -> None:
    replace = resource.replace
    if resource.replacing is None or replace is None:
        return

    def replace_record(
        row: Annotated[AnyRow, Depends(resource.own)],
        body: AnyBody,
        context: ContextDep,
        caller: CallerDep,
        if_match: IfMatch = "",
    ) -> Response:
        require_seen(row.version, if_match)
        replace(context, row, body)
        replaced = resource.again(context, getattr(row, resource.key))
        return json_response(resource.show(replaced, caller), headers=tag(row.version + 1))

    replace_record.__annotations__["body"] = resource.body
    endpoint = _declared(resource, resource.replacing, resource.write, resource.document)(replace_record)
    router.put(f"/{{{resource.key}}}", responses=TAGGED | GUARDED, openapi_extra=resource.body_schema)(endpoint)


def _delete(router: APIRouter, resource: Resource[Any, Any]) -> None:
    def unchanged(row: Annotated[AnyRow, Depends(resource.own)], if_match: IfMatch = "") -> AnyRow:
        require_seen(row.version, if_match)
        return row

    responses, own = (GUARDED, unchanged) if resource.showing else (None, resource.own)

    @router.delete(f"/{{{resource.key}}}", status_code=HTTPStatus.NO_CONTENT, responses=responses)
    @_declared(resource, resource.deleting, resource.write)
    def delete_record(row: Annotated[AnyRow, Depends(own)], context: ContextDep) -> Response:
        resource.delete(context, row)
        return Response(status_code=HTTPStatus.NO_CONTENT)


def _declared(
    resource: Resource[Any, Any], operation: Operation, permission: Permission, document: object = None
) -> Callable[[Endpoint], Endpoint]:
    """Give an endpoint its declared name, description and permission, from which the OpenAPI document is made."""

    def declare(endpoint: Endpoint) -> Endpoint:
        endpoint.__module__, endpoint.__name__, endpoint.__doc__ = (
            resource.module,
            operation.name,
            operation.description,
        )
        if document is not None:
            response_model(document)(endpoint)
        return needs(permission, by_tenant=True)(endpoint)

    return declare
