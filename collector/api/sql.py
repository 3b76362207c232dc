"""SQL over HTTP, read-only."""

from typing import Annotated

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from collector.api.context import Here
from collector.api.documents import table_document
from storage.errors import BadQuery

router = APIRouter()

_MAX_STATEMENT_CHARACTERS = 1 << 20
_MAX_PARAMETERS = 20_000  # a guess: more than a rule of the largest size has
_INT64 = 1 << 63


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
    """One read-only statement, and what its `$name`s stand for."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(min_length=1, max_length=_MAX_STATEMENT_CHARACTERS)
    parameters: dict[str, _Value] = Field(default={}, max_length=_MAX_PARAMETERS)


@router.post("/api/v1/sql")
def answer(query: Query, here: Here) -> JSONResponse:
    """The rows that one SELECT answers with, up to the limit of rows and of time."""
    try:
        limits = here.sql_limits
        table = here.queries.sql(query.sql, query.parameters, max_rows=limits.rows, timeout_s=limits.seconds)
    except BadQuery as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    return JSONResponse(table_document(table))
