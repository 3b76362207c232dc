"""The declaration of a tool: its name, its arguments and answer, its permission, and its function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mcp import types
from pydantic import BaseModel, ConfigDict, Field

from collector.access.permission import Permission
from collector.mcp.asking import Api, Rights


class Arguments(BaseModel):
    """Arguments of a tool."""

    # Digits in a text, beyond the range of floats, become an infinite one, which no request to the API can hold.
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class Answer(BaseModel):
    """Answer of a tool."""

    model_config = ConfigDict(extra="forbid")

    cut: list[str] = Field(default=[], description="What was cut to fit, by where it stands; ask for less at once.")


Taken = TypeVar("Taken", bound=Arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[Taken]):
    """A tool for models. `of_everything`: it is closed to keys with a tenant.

    A tool with more than READ changes something, unless it is a `trial`.
    """

    name: str
    title: str
    description: str
    arguments: type[Taken]
    answer: type[Answer]
    run: Callable[[Api, Taken], Awaitable[Answer]]
    permission: Permission = Permission.READ
    of_everything: bool = False
    trial: bool = False
    idempotent: bool = True

    @property
    def writes(self) -> bool:
        """Return True if it changes something."""
        return self.permission is not Permission.READ and not self.trial

    def is_for(self, rights: Rights) -> bool:
        """Return True if a caller may use it."""
        return self.permission in rights.permissions and (rights.sees_all or not self.of_everything)

    def as_tool(self) -> types.Tool:
        """Return the tool as the protocol describes it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.answer.model_json_schema(),
            annotations=types.ToolAnnotations(
                read_only_hint=not self.writes,
                destructive_hint=False,  # what is added can be withdrawn, and nothing is deleted
                idempotent_hint=self.idempotent,
                open_world_hint=False,
            ),
        )


AnyTool = Tool[Any]
