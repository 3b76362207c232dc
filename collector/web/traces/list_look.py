"""The look of the list of traces: columns and density, from the address or a cookie."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from fastapi.responses import RedirectResponse, Response

from collector.web.visitor import with_parameters

COLUMNS: Final[Mapping[str, str]] = {
    "started": "Started",
    "verdicts": "Verdicts",
    "scores": "Scores",
    "project": "Project",
    "service": "Service",
    "model": "Models",
    "release": "Releases",
    "user": "User",
    "session": "Session",
    "duration": "Duration",
    "tokens": "Tokens",
    "cost": "Cost",
    "spans": "Spans",
}
"""The columns that can stand beside the name of a trace, in this order."""

DENSITIES: Final[Mapping[str, str]] = {"comfortable": "Comfortable", "compact": "Compact"}

_USUAL: Final = ("started", "verdicts", "project", "duration", "tokens", "cost", "spans")
_NONE: Final = "none"  # no column; ignored beside others
_COOKIES: Final = {"columns": "list_columns", "density": "list_density"}
_YEAR_S: Final = 31_536_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLook:
    """The columns, and the density."""

    columns: tuple[str, ...] = _USUAL
    density: str = "comfortable"

    @property
    def needs_spans(self) -> bool:
        """Return True if a shown column needs the spans, not only their sums."""
        return bool({"model", "release"} & set(self.columns))


def look_of(request: Request) -> ListLook:
    """Return the look that the address requests, else the remembered one; unknown columns are ignored."""
    columns = _columns(",".join(request.query_params.getlist("columns")))
    if columns is None:
        columns = _columns(_remembered(request, "columns").replace(".", ","))
    density = request.query_params.get("density") or _remembered(request, "density")
    look = ListLook(density=density if density in DENSITIES else "comfortable")
    return look if columns is None else ListLook(columns=columns, density=look.density)


def _columns(text: str) -> tuple[str, ...] | None:
    named = {each.strip() for each in text.split(",")}
    chosen = tuple(name for name in COLUMNS if name in named)
    return chosen if chosen or _NONE in named else None


def _remembered(request: Request, what: str) -> str:
    return request.cookies.get(_COOKIES[what], "")


def remember(request: Request, look: ListLook) -> Response:
    """Redirect to the list with the look in its address, and remember the look in two cookies."""
    columns = look.columns or (_NONE,)
    address = with_parameters(request, columns=",".join(columns), density=look.density, remember=None)
    answer = RedirectResponse(address, 303)
    for what, value in (("columns", ".".join(columns)), ("density", look.density)):
        answer.set_cookie(
            _COOKIES[what],
            value,
            max_age=_YEAR_S,
            path=request.scope.get("root_path", "") + "/traces",
            secure=request.url.scheme == "https",
            httponly=True,
            samesite="lax",
        )
    return answer
