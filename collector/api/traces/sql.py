"""SQL over HTTP, read-only."""

import asyncio
from typing import Annotated, Any, Literal

import pyarrow as pa
from fastapi import Header, Request
from fastapi import Query as Parameter
from fastapi.responses import Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.traces.sql_formats import FORMS, ArrowForm, TableForm, form_of, truncation
from storage.query.query_options import QueryOptions

router = api_router()

_MAX_STATEMENT_CHARACTERS = 1 << 20
_MAX_PARAMETERS = 20_000  # a guess: more than a rule of the largest size has
_INT64 = 1 << 63
_LOOK_S = 0.2  # between two checks whether the client is still connected; a guess


def _fitting(value: object) -> object:
    if isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ValueError("whole numbers have 64 bits; send a larger one as text, and cast it")
    return value


_Value = Annotated[
    Annotated[str, Field(max_length=_MAX_STATEMENT_CHARACTERS)]
    | Annotated[bool, Strict()]
    | Annotated[int, Strict()]
    | Annotated[float, Strict(), Field(allow_inf_nan=False)]
    | None,
    AfterValidator(_fitting),
]


class Query(BaseModel):
    """One read-only statement, and the values of its `$name` parameters."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(min_length=1, max_length=_MAX_STATEMENT_CHARACTERS)
    parameters: dict[str, _Value] = Field(default={}, max_length=_MAX_PARAMETERS)


class SqlColumn(BaseModel):
    """One column of an answer."""

    name: str
    type: str


class SqlAnswer(BaseModel):
    """Result of a query."""

    columns: list[SqlColumn]
    rows: list[list[Any]]
    truncated: bool = Field(description="True if rows beyond the limit were left out.")


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {
        "model": SqlAnswer,
        "content": {
            form.media_type: {"schema": {"type": "string", "format": "binary"}}
            for name, form in FORMS.items()
            if name != "json"
        },
    }
}


@router.post("/api/v1/sql", responses=_ANSWERS)
@needs(Permission.READ)
async def answer(
    query: Query,
    context: ContextDep,
    caller: CallerDep,
    request: Request,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    form_name: Annotated[Literal["json", "csv", "rawcsv", "arrow", "parquet"] | None, Parameter(alias="format")] = None,
) -> Response:
    """Run one SELECT, within limits of rows and time; it is cancelled if the client disconnects.

    A query waits while too many run; after a timeout it is refused, to be retried later.

    Administrators may query all tables, others the documented views. Keys with a tenant may not query at all: views of
    one tenant would hide the rows of others, but an error of a condition on such a row would still reveal its values.
    """
    client_id = caller.client
    terms = QueryOptions(views_only=not caller.may(Permission.ADMINISTER), client_id=client_id)
    async with context.turns.turn(request.is_disconnected, client_id=client_id):
        running = asyncio.create_task(context.turns.run(_ask, query, context, form_of(form_name, accept), terms))
        try:
            while not (await asyncio.wait({running}, timeout=_LOOK_S))[0]:
                if await request.is_disconnected():
                    terms.stop.ask()
        finally:
            terms.stop.ask()  # no effect if it has ended; otherwise this task was cancelled
        return running.result()


def _ask(query: Query, context: Context, form: TableForm | ArrowForm, terms: QueryOptions) -> Response:
    settings, ask = context.settings, context.store.queries
    match form:
        case TableForm():
            return form.write(
                ask.sql(
                    query.sql, query.parameters, max_rows=settings.sql_rows, timeout_s=settings.sql_seconds, terms=terms
                )
            )
        case ArrowForm():
            table, is_cut = ask.arrow(
                query.sql, query.parameters, max_rows=settings.sql_rows, timeout_s=settings.sql_seconds, terms=terms
            )
            try:
                content = form.write(table)
            except pa.ArrowException as error:  # the format has no such type
                return problem(400, str(error))
            return Response(content, media_type=form.media_type, headers=truncation(is_cut=is_cut))
