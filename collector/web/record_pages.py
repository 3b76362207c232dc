"""Pages of resources: the form that creates or changes a record, and the question before one is deleted."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Generic, TypeAlias

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import ValidationError

from collector.access.permission import needs
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.kernel import AnyRow, Body, Resource, Row
from collector.web.confirming import Confirmation, ask
from collector.web.edit_conflict import version_seen
from collector.web.rendering import see_other
from collector.web.text import one_line
from collector.web.visitor import Form, FormDep, by_field, page_router
from storage.errors import BadQuery, Conflict, Stale, require_version

Values: TypeAlias = Mapping[str, str]


class BadForm(Exception):
    """Refusal of a form that is not valid. `problems` are by field name."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__(problems)
        self.problems = problems


@dataclass(frozen=True, slots=True, kw_only=True)
class FormState(Generic[Row]):
    """The values of a form, their problems, and the record that it changes."""

    values: Values
    problems: Mapping[str, str] = field(default_factory=dict)
    record: Row | None = None


@dataclass(frozen=True, kw_only=True)
class RecordPages(Generic[Row, Body]):
    """The declaration of the pages that change a resource."""

    of: Resource[Row, Body]
    place: str  # path of the list; the other pages are below it
    noun: str  # for a record, in the texts of the pages
    begin: Callable[[Request], Values]  # the values in the form of a new record
    values: Callable[[Row], Values]  # the values in the form of a record
    typed: Callable[[Form], Values]
    body: Callable[[Values, Values], Body]  # of the typed and the stored values; it may raise `BadForm`
    form: Callable[[Request, FormState[Row], int], Response]  # renders the form with an HTTP status
    taken: str = ""  # the field beside which a conflict is shown; "": above the form
    created: Callable[[Row], str]  # where to go once a record is created
    back: Callable[[Row], str]  # where to go once it is changed, or its deletion is cancelled
    deletion: Markup  # what deleting does, with {} for the name

    def save(self, request: Request, form: Form, record: Row | None, write: Callable[[Body], str]) -> Response:
        """Write the form and go where `write` returns; after a refusal show the form and the reason."""
        values = self.typed(form)

        def refused(status: int, problems: Mapping[str, str]) -> Response:
            return self.form(request, FormState(values=values, problems=problems, record=record), status)

        try:
            body = self.body(values, {} if record is None else self.values(record))
            return see_other(write(body))
        except ValidationError as error:
            return refused(400, by_field(error))
        except BadForm as error:
            return refused(400, error.problems)
        except Stale:
            return refused(409, {"": f"The {self.noun} was changed while you edited it: check it and save again."})
        except (BadQuery, Conflict) as error:
            return refused(409, {self.taken: str(error)})

    def question(self, record: AnyRow) -> Confirmation:
        """Return the question before a record is deleted."""
        return Confirmation(
            title=f"Delete a {self.of.kind}",
            message=self.deletion.format(one_line(record.name)),
            action=f"{self.place}/{getattr(record, self.of.key)}/delete",
            button=f"Delete the {self.noun}",
            back=self.back(record),
        )


def router_of(pages: RecordPages[Any, Any]) -> APIRouter:
    """Make the routes that create, change and delete records; the caller defines those that list and show them."""
    router, may_write = page_router(), needs(pages.of.write, by_tenant=True)
    _add_forms(router, pages)
    one: Final = f"{pages.place}/{{{pages.of.key}}}"

    @router.get(f"{one}/delete")
    @may_write
    def ask_to_delete(request: Request, record: Annotated[AnyRow, Depends(pages.of.own)]) -> Response:
        return ask(request, pages.question(record))

    @router.post(f"{one}/delete")
    @may_write
    def delete(record: Annotated[AnyRow, Depends(pages.of.own)], context: ContextDep) -> Response:
        pages.of.delete(context, record)
        return see_other(pages.place)

    return router


def _add_forms(router: APIRouter, pages: RecordPages[Any, Any]) -> None:
    may_write, own = needs(pages.of.write, by_tenant=True), pages.of.own
    replace = pages.of.replace
    one: Final = f"{pages.place}/{{{pages.of.key}}}"

    @router.get(f"{pages.place}/new")
    @may_write
    def new(request: Request) -> Response:
        return pages.form(request, FormState(values=pages.begin(request)), 200)

    @router.post(f"{pages.place}/new")
    @may_write
    def create(request: Request, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
        def write(body: object) -> str:
            return pages.created(pages.of.add(context, body, tenant=caller.tenant, by=caller.key_name))

        return pages.save(request, form, None, write)

    if replace is None:
        return

    @router.get(f"{one}/edit")
    @may_write
    def edit(request: Request, record: Annotated[AnyRow, Depends(own)]) -> Response:
        return pages.form(request, FormState(values=pages.values(record), record=record), 200)

    @router.post(f"{one}/edit")
    @may_write
    def change(
        request: Request, record: Annotated[AnyRow, Depends(own)], context: ContextDep, form: FormDep
    ) -> Response:
        def write(body: object) -> str:
            require_version(record.version, {version_seen(form)})
            replace(context, record, body)
            return pages.back(record)

        return pages.save(request, form, record, write)
