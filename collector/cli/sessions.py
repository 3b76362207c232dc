"""`tracejury sessions`: conversations of several traces."""

from collections.abc import Iterator
from pathlib import Path

import click
from rich.table import Table
from rich.text import Text

from collector.api.base.times import instant_ns
from collector.api.responses.sessions import SessionDocument, SessionList, SessionSummaryDocument, TurnDocument
from collector.api.responses.traces import EvaluationDocument
from collector.cli import trace_text
from collector.cli.client import open_source
from collector.cli.conversation_text import call_text, message_text, message_width
from collector.cli.options import one_source, source_options
from collector.cli.render import output_console, print_json
from collector.cli.responses import parse_response
from collector.escaping import one_line
from collector.path_names import path_segment
from collector.units import count_text, duration_text, instant_text, usd_text

_PATH = "/api/v1/sessions"


@click.group()
def sessions() -> None:
    """Look at sessions: the traces with one session id, as one conversation."""


@sessions.command("list")
@click.option("--project", metavar="NAME", help="Only sessions with a trace of this project.")
@click.option("--user", metavar="ID", help="Only sessions of this user.")
@click.option("--text", metavar="TEXT", help="Only sessions whose input or output contains this text.")
@click.option("--limit", type=click.IntRange(1, 200), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_sessions(*, limit: int, as_json: bool, server: str | None, data: Path | None, **filters: str | None) -> None:
    """List sessions by the start of their latest trace, newest first."""
    one_source(server, data)
    with open_source(server, data) as client:
        page = client.get(_PATH, size=limit, **filters)
    if as_json:
        print_json(page["content"] if isinstance(page, dict) and "content" in page else page)
    else:
        _print_list(parse_response(SessionList, page).content)


@sessions.command("show")
@click.argument("session_id")
@click.option("--turns", type=click.IntRange(1, 200), default=50, show_default=True, help="Number of latest turns.")
@click.option("--before", metavar="PLACE", help="Turns before this position, which the output names.")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known about it, as JSON.")
@source_options
def show_session(
    *, session_id: str, turns: int, before: str | None, as_json: bool, server: str | None, data: Path | None
) -> None:
    """Show a session: messages, tool calls, and results of rules."""
    one_source(server, data)
    with open_source(server, data) as client:
        session = client.get(f"{_PATH}/{path_segment(session_id)}", size=turns, before=before)
    if as_json:
        print_json(session)
        return
    console = output_console()
    guides = trace_text.UNICODE if console.encoding.startswith("utf") else trace_text.ASCII
    for text in _session_text(parse_response(SessionDocument, session), console.width, guides.ellipsis):
        console.print(text, soft_wrap=True)


def _print_list(rows: list[SessionSummaryDocument]) -> None:
    console = output_console()
    if not rows:
        console.print("no sessions here")
        return
    table = Table(box=None, header_style="dim", pad_edge=False)
    for name in ("SESSION", "STATE", "USER", "PROJECT", "TURNS", "ERRORS", "TOOL CALLS", "TOKENS", "COST", "LAST SPAN"):
        table.add_column(name, overflow="fold" if name == "SESSION" else "ellipsis", no_wrap=name != "SESSION")
    for each in rows:
        tokens = [count for count in (each.input_tokens, each.output_tokens) if count is not None]
        table.add_row(
            one_line(each.session_id),
            each.state,
            one_line(each.user_id or ""),
            one_line(", ".join(each.projects)),
            str(each.trace_count),
            str(each.error_trace_count),
            f"{each.tool_call_count}{_of_part(each)}",
            str(sum(tokens)) if tokens else "",
            "" if each.cost_usd is None else usd_text(float(each.cost_usd)),
            (each.last_time or "")[:19].replace("T", " "),
        )
    console.print(table)


def _of_part(session: SessionSummaryDocument) -> str:
    is_part = session.summed_span_count < session.span_count
    return f" (first {session.summed_span_count} spans)" if is_part else ""


def _session_text(session: SessionDocument, width: int, ellipsis: str) -> Iterator[Text]:
    yield Text(f"session {one_line(session.session_id)}", style="bold")
    parts = [session.state, count_text(session.trace_count, "turn"), *map(one_line, session.projects)]
    if session.duration_ms is not None:
        parts.append(duration_text(session.duration_ms))
    if session.cost_usd is not None:
        parts.append(f"{usd_text(float(session.cost_usd))}{_of_part(session)}")
    yield Text(", ".join(parts))
    yield from (_verdict(each) for each in session.evaluations if not each.superseded)
    if session.earlier is not None:
        yield Text(f"{ellipsis} earlier turns: --before {session.earlier}", style="dim")
    for turn in session.turns:
        yield _head(turn)
        for message in turn.messages:
            yield message_text(message, message_width(width), ellipsis)
        for number, call in enumerate(turn.tool_calls, 1):
            yield call_text(number, call, message_width(width), ellipsis)
        yield from map(_verdict, turn.evaluations)


def _verdict(each: EvaluationDocument) -> Text:
    score = "" if each.score is None else f" {float(each.score):g}"
    return Text(f"{one_line(each.rule)}: {each.outcome}{score}", style="dim")


def _head(turn: TurnDocument) -> Text:
    parts = [f"trace {turn.trace_id}"]
    if turn.start_time is not None:
        parts.append(f"{instant_text(instant_ns(turn.start_time))} UTC")
    if turn.error_count:
        parts.append(count_text(turn.error_count, "error"))
    if turn.cost_so_far_usd is not None:
        parts.append(f"{usd_text(float(turn.cost_so_far_usd))} so far")
    return Text(f"\nTURN {turn.number}  {', '.join(parts)}", style="dim")
