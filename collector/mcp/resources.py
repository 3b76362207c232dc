"""What can be read by an address: a trace, a run, a rule."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote

from mcp import types

from collector.mcp.asking import Api, part
from collector.mcp.errors import ToolRefused

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceKind:
    """One kind of resource, and where the API has it."""

    name: str
    template: str
    description: str
    path: str

    def matches(self, uri: str) -> Mapping[str, str] | None:
        """The parts of an address, if it is one of this kind."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/?#]+)", re.escape(self.template))
        found = re.fullmatch(pattern, uri)
        return None if found is None else {name: unquote(value) for name, value in found.groupdict().items()}


KINDS: Final = (
    ResourceKind(
        name="trace",
        template="tracejury://trace/{trace_id}",
        description="A trace: what it means, and its spans.",
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
    """How clients are told what they may read."""
    return [
        types.ResourceTemplate(name=kind.name, uri_template=kind.template, description=kind.description, mime_type=JSON)
        for kind in KINDS
    ]


async def read(api: Api, uri: str) -> dict[str, Any]:
    """What is at an address.

    Raises:
        ToolRefused: nothing is, or it may not be seen.
    """
    for kind in KINDS:
        parts = kind.matches(uri)
        if parts is not None:
            found: dict[str, Any] = await api.get(kind.path.format_map({k: part(v) for k, v in parts.items()}))
            return found
    raise ToolRefused(f"no resource is at {uri}; there are {', '.join(kind.template for kind in KINDS)}")
