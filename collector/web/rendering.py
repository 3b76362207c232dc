"""Rendering of templates, with headers that keep scripts in the content of spans from running."""

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeVar, cast

from fastapi import Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from collector.access.caller import READER, Caller
from collector.alert_lines import alert_line, alert_subject
from collector.api.base.context import Context
from collector.escaping import one_line
from collector.listeners.path_prefix import page_under
from collector.path_names import path_segment
from collector.result_labels import job_word, result_word
from collector.units import metric_text
from collector.web import formatting, text
from collector.web.assets import asset, icon
from collector.web.markdown import rich_block
from collector.web.navigation import MenuEntry, entries_for, may_use
from collector.web.visitor import TOKEN_FIELD, give_cookie, sessions_of, visitor_of, with_parameters

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Policy under which no content of spans can run or send requests, even if it got into a page unescaped."""

_HEADERS: Final = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",  # without it, browsers send "Origin: null" with our own forms too
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
}
_MOST_ALERTS: Final = 99
_THEMES: Final = ("light", "dark")
TEXT_HEADERS: Final = {"content-security-policy": "default-src 'none'; sandbox", "x-content-type-options": "nosniff"}


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """Render a template with `values`, and with `shared` and the globals and filters below."""
    visitor = visitor_of(request)
    caller: Caller = getattr(request.state, "caller", None) or READER
    authenticator = request.app.state.context.authenticator
    entries: tuple[MenuEntry, ...] = request.app.state.menu
    is_known = caller.key_id is not None or authenticator.keyring.is_open or authenticator.reads_are_open
    menu = entries_for(caller, entries) if is_known else []
    token = sessions_of(request).token(visitor.id)
    shared = {
        "request": request,
        "root": (root := request.scope.get("root_path", "")),
        "who": caller,
        "is_open": authenticator.keyring.is_open,
        "menu": menu,
        "menu_groups": [(group, list(entries)) for group, entries in itertools.groupby(menu, lambda each: each.group)],
        "open_alerts": _open_alerts(request, caller, menu) if status == HTTPStatus.OK else "",
        "now_ns": time.time_ns(),
        "theme": chosen if (chosen := request.cookies.get("theme")) in _THEMES else "",
        "csrf": Markup('<input type="hidden" name="{}" value="{}">').format(TOKEN_FIELD, token),
        "may_use": may_use,
        "server": Markup("<span data-origin>{}://{}</span>{}").format(request.url.scheme, request.url.netloc, root),
        "may_make_keys": any(entry.path == "/keys" for entry in menu),
        "address": lambda **changed: with_parameters(request, **changed),
    }
    content = page_under(root, _ENVIRONMENT.get_template(template).render(shared | values))
    answer = HTMLResponse(content, status, headers=_HEADERS)
    if visitor.is_new:
        give_cookie(request, answer, visitor.id)
    return answer


def _open_alerts(request: Request, caller: Caller, menu: Sequence[MenuEntry]) -> str:
    if not any(entry.path == "/alerts" for entry in menu):
        return ""
    count = request.app.state.context.store.alerts.count_open(tenant=caller.visible_tenant, most=_MOST_ALERTS + 1)
    return f"{_MOST_ALERTS}+" if count > _MOST_ALERTS else str(count or "")


def plain_text(content: str) -> PlainTextResponse:
    """Return an untrusted text as plain text."""
    return PlainTextResponse(content.encode("utf-8", "replace"), headers=TEXT_HEADERS)


def _ago(time_ns: int | None) -> Markup:
    return formatting.ago(time_ns, time.time_ns())


def _same(values: Iterable[str]) -> list[tuple[str, str]]:
    return [(value, one_line(value)) for value in values]


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(asset=asset, icon=icon, count=formatting.counted, metric=metric_text, same=_same)
    environment.globals.update(alert_subject=alert_subject, alert_line=alert_line)
    environment.filters.update(
        ago=_ago,
        minus=formatting.minus,
        moment=formatting.moment,
        moment_us=formatting.moment_us,
        duration=formatting.duration,
        number=formatting.number,
        short_count=formatting.short_count,
        size=formatting.size,
        usd=formatting.usd,
        cost=formatting.cost,
        percent=formatting.percent,
        result_word=result_word,
        job_word=job_word,
        segment=path_segment,
        line=text.one_line,
        code=text.code_line,
        block=text.block,
        json_block=text.json_block,
        judged_output=text.judged_output,
        value_block=text.value_block,
        rich_block=rich_block,
    )
    return environment


_ENVIRONMENT: Final = _environment()


_Rest = ParamSpec("_Rest")
_Answer = TypeVar("_Answer")


def in_snapshot(endpoint: Callable[_Rest, _Answer]) -> Callable[_Rest, _Answer]:
    """Wrap a read-only route so that its `context` reads one snapshot."""

    @wraps(endpoint)
    def route(*args: _Rest.args, **named: _Rest.kwargs) -> _Answer:
        with cast("Context", named["context"]).store.queries.in_snapshot():
            return endpoint(*args, **named)

    return route


def see_other(place: str) -> RedirectResponse:
    """Redirect to an address, which the browser requests with GET."""
    return RedirectResponse(place, HTTPStatus.SEE_OTHER)
