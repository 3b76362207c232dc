"""SQL over HTTP, read-only."""

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from collector.api.context import Here
from collector.api.documents import table_document
from storage.errors import BadQuery

router = APIRouter()

_MAX_STATEMENT_CHARACTERS = 1 << 20


class Query(BaseModel):
    """One read-only statement."""

    model_config = ConfigDict(extra="forbid")

    sql: str = Field(min_length=1, max_length=_MAX_STATEMENT_CHARACTERS)


@router.post("/api/v1/sql")
def answer(query: Query, here: Here) -> JSONResponse:
    """The rows that one SELECT answers with, up to the limit of rows and of time."""
    try:
        table = here.queries.sql(query.sql, max_rows=here.sql_limits.rows, timeout_s=here.sql_limits.seconds)
    except BadQuery as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    return JSONResponse(table_document(table))
