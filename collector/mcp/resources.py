"""The resources that can be read by an address: a trace, a run, a rule."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from mcp import types

from collector.mcp.client import Api, part
from collector.mcp.errors import ToolRefused

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """A kind of resource, and its path in the API."""

    name: str
    template: str
    description: str
    path: str

    def matches(self, uri: str) -> Mapping[str, str] | None:
        """Return the parts of an address of this kind; None for any other."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/?#]+)", re.escape(self.template))
        match = re.fullmatch(pattern, uri)
        return None if match is None else {name: unquote(value) for name, value in match.groupdict().items()}


KINDS: Final = (
    ResourceKind(
        name="trace",
        template="tracejury://trace/{trace_id}",
        description="A trace: its summary, and its spans.",
        path="/api/v1/traces/{trace_id}",
    ),
    ResourceKind(
        name="run",
        template="tracejury://run/{run_id}",
        description="A run of an experiment, with its first items.",
        path="/api/v1/runs/{run_id}",
    ),
    ResourceKind(
        name="rule",
        template="tracejury://rule/{project}/{rule_id}",
        description="A rule that is about a project.",
        path="/api/v1/projects/{project}/trace-eval-rules/{rule_id}",
    ),
)


def templates() -> list[types.ResourceTemplate]:
    """Return the templates of readable addresses."""
    return [
        types.ResourceTemplate(name=kind.name, uri_template=kind.template, description=kind.description, mime_type=JSON)
        for kind in KINDS
    ]


async def read(api: Api, uri: str) -> dict[str, Any]:
    """Read a resource.

    Raises:
        ToolRefused: the resource does not exist, or the caller may not see it.
    """
    for kind in KINDS:
        parts = kind.matches(uri)
        if parts is not None:
            document: dict[str, Any] = await api.get(kind.path.format_map({k: part(v) for k, v in parts.items()}))
            return document
    raise ToolRefused(f"no resource is at {uri}; there are {', '.join(kind.template for kind in KINDS)}")
