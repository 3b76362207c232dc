"""Sessions: conversations of several traces, found, and shown turn by turn."""

from typing import Any

from pydantic import BaseModel, Field

from collector.api.responses.sessions import SessionSummaryDocument, TurnDocument
from collector.mcp.client import Api, part
from collector.mcp.tool import Arguments, Tool, ToolOutput, shows
from collector.mcp.tools.traces import judged

_MOST_TEXTS = 120_000
"""Traces whose texts are searched for an answer. With 200,000 a text without a match took 317 ms."""


@shows(
    SessionSummaryDocument,
    *("sessionId", "projects", "userId", "firstInput", "state", "startTime", "lastTime", "traceCount"),
    *("errorTraceCount", "inputTokens", "outputTokens", "costUsd", "toolCallCount", "summedSpanCount"),
)
class SessionLine(BaseModel):
    """A session of a list."""


class FindSessions(Arguments):
    """Filters of the sessions: a session matches if one of its traces matches all."""

    project: str | None = Field(default=None, description="Only of this project.")
    user: str | None = Field(default=None, description="Only of this user.")
    text: str | None = Field(default=None, description="Input or output of a trace holds this.")
    since: str | None = Field(default=None, description="Started at or after, RFC 3339, such as 2026-11-21T10:00:00Z.")
    until: str | None = Field(default=None, description="Started before, RFC 3339.")
    limit: int = Field(default=20, ge=1, le=100)
    before: str | None = Field(default=None, description="The `next` of the answer before, to go on.")


class FoundSessions(ToolOutput):
    """Sessions by the start of their latest trace, newest first."""

    sessions: list[SessionLine]
    next: str | None = Field(description="Ask again with this as `before`; null: there are no more.")
    searched_to: str | None = Field(
        description="Null, or: the text was looked for in the newest traces alone, which started then or later. Ask "
        "again with this as `until` to look further back."
    )


async def find_sessions(api: Api, arguments: FindSessions) -> FoundSessions:
    """Find sessions with a trace that matches the filters."""
    filters = arguments.model_dump(exclude={"since", "until", "limit"}, exclude_none=True)
    bounds = {"from": arguments.since, "to": arguments.until, "size": arguments.limit, "newest": _MOST_TEXTS}
    page = await api.get("/api/v1/sessions", **filters, **bounds)
    return FoundSessions(sessions=page["content"], next=page["next"], searched_to=page["searchedTo"])


class GetSession(Arguments):
    """The session, and the turns to return."""

    session_id: str
    tenant: str | None = None
    turns: int = Field(default=10, ge=1, le=100, description="So many, the last ones.")
    before: str | None = Field(default=None, description="The `earlier` of the answer before: turns before those.")


@shows(TurnDocument, "number", "traceId", "startTime", "errorCount", "messages", "toolCalls", "costSoFarUsd")
class SessionTurnLine(BaseModel):
    """A trace's part of a conversation."""

    evaluations: list[dict[str, Any]]


class ShownSession(ToolOutput):
    """A session as one conversation, each message once."""

    session: SessionLine
    turns: list[SessionTurnLine]
    earlier: str | None = Field(description="To get the turns before these: pass it as `before`; null: there are none.")


async def get_session(api: Api, arguments: GetSession) -> ShownSession:
    """Show the last turns of a session, or those before a place."""
    path = f"/api/v1/sessions/{part(arguments.session_id)}"
    session = await api.get(path, size=arguments.turns, before=arguments.before, tenant=arguments.tenant)
    turns = [turn | {"evaluations": list(map(judged, turn["evaluations"]))} for turn in session["turns"]]
    return ShownSession(session=session, turns=turns, earlier=session["earlier"])


TOOLS = (
    Tool(
        name="find_sessions",
        title="Find sessions",
        description="Conversations of several traces, by project, user, time and text.",
        arguments=FindSessions,
        answer=FoundSessions,
        run=find_sessions,
    ),
    Tool(
        name="get_session",
        title="Show a session",
        description="One conversation turn by turn: messages, tool calls, results of rules, cost so far.",
        arguments=GetSession,
        answer=ShownSession,
        run=get_session,
    ),
)
