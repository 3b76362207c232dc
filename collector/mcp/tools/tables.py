"""SQL over the documented views."""

from typing import Any

from pydantic import BaseModel, Field

from collector.mcp.client import Api
from collector.mcp.tool import Arguments, Tool, ToolOutput
from storage.sql import documented_views


class QuerySql(Arguments):
    """A statement."""

    sql: str = Field(description="One SELECT over the views, in DuckDB's SQL. list_views lists their columns.")
    parameters: dict[str, str | int | float | bool | None] = Field(
        default={}, description="Values of the statement's parameters: `$name` stands for the value of `name`."
    )
    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of rows.")


class ResultColumn(BaseModel):
    """A column of an answer."""

    name: str
    type: str


class SqlResult(ToolOutput):
    """Result of a statement."""

    columns: list[ResultColumn]
    rows: list[list[Any]]
    truncated: bool


async def query_sql(api: Api, arguments: QuerySql) -> SqlResult:
    """Run a SELECT over the views."""
    result = await api.post("/api/v1/sql", {"sql": arguments.sql, "parameters": arguments.parameters})
    is_cut = result["truncated"] or len(result["rows"]) > arguments.limit
    return SqlResult(columns=result["columns"], rows=result["rows"][: arguments.limit], truncated=is_cut)


class ListViews(Arguments):
    """No arguments."""


class View(BaseModel):
    """A view and its columns, each with its type."""

    name: str
    columns: dict[str, str]


class ListedViews(ToolOutput):
    """The views that SQL can read."""

    views: list[View]


def _description(view: str) -> str:
    return f"SELECT '{view}', column_name, column_type FROM (DESCRIBE {view})"  # noqa: S608 - names of ours


async def list_views(api: Api, arguments: ListViews) -> ListedViews:  # noqa: ARG001 - a tool takes its arguments
    """List the views with their columns and types."""
    result = await api.post("/api/v1/sql", {"sql": " UNION ALL ".join(map(_description, documented_views()))})
    views: dict[str, dict[str, str]] = {}
    for name, column, kind in result["rows"]:
        views.setdefault(name, {})[column] = kind
    return ListedViews(views=[View(name=name, columns=columns) for name, columns in views.items()])


TOOLS = (
    Tool(
        name="query_sql",
        title="Query in SQL",
        description="A read-only SELECT in DuckDB's SQL over the views of list_views.",
        arguments=QuerySql,
        answer=SqlResult,
        run=query_sql,
        of_everything=True,
    ),
    Tool(
        name="list_views",
        title="List views",
        description="The views that query_sql can read, with their columns and types.",
        arguments=ListViews,
        answer=ListedViews,
        run=list_views,
        of_everything=True,
    ),
)
