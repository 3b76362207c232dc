"""The declaration of a tool: its name, its arguments and answer, its permission, and its function."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from mcp import types
from msgspec import NODEFAULT, structs
from pydantic import BaseModel, ConfigDict, Field, create_model

from collector.access.permission import Permission
from collector.api.responses.wire import WireDocument, description_of, read_type
from collector.mcp.client import Api, Rights


class Arguments(BaseModel):
    """Arguments of a tool."""

    # A number beyond the range of floats would become infinite, which no request to the API can hold.
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class ToolOutput(BaseModel):
    """Answer of a tool."""

    # An answer that is made of an API document keeps only the fields that it declares.
    model_config = ConfigDict(json_schema_extra={"additionalProperties": False})

    cut: list[str] = Field(default=[], description="Paths of shortened parts; request fewer of them at once.")


Taken = TypeVar("Taken", bound=Arguments)
Model = TypeVar("Model", bound=BaseModel)


def shows(document: type[WireDocument], *names: str) -> Callable[[type[Model]], type[Model]]:
    """Declare fields of a document of the API, by their names in JSON, before those that a model has itself.

    Types and descriptions are those of the document. Documents inside it are objects: their schemas would be sent to
    each client, too. Texts are any texts, since a newer server may send others; those of this version are examples.
    """
    hints = get_type_hints(document, include_extras=True)
    declared = {each.encode_name: each for each in structs.fields(document)}

    def declare(model: type[Model]) -> type[Model]:
        own = {name: (model.model_fields[name].annotation, model.model_fields[name]) for name in model.__annotations__}
        shown = {name: _shown(hints[declared[name].name], declared[name]) for name in names}
        fields: Any = shown | own
        made: Any = create_model(
            model.__name__, __base__=model.__bases__, __doc__=model.__doc__, __module__=model.__module__, **fields
        )
        return cast("type[Model]", made)

    return declare


def _shown(hint: Any, field: structs.FieldInfo) -> tuple[Any, Any]:  # noqa: ANN401 - a type
    default = ... if field.default is NODEFAULT else field.default
    texts = [text for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal for text in get_args(kind)]
    return read_type(hint, dict[str, Any]), Field(default, description=description_of(hint), examples=texts or None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[Taken]):
    """A tool for models. `of_everything`: keys of a tenant may not use it.

    A tool with more than READ changes something, unless it is a `trial`.
    """

    name: str
    title: str
    description: str
    arguments: type[Taken]
    answer: type[ToolOutput]
    run: Callable[[Api, Taken], Awaitable[ToolOutput]]
    permission: Permission = Permission.READ
    of_everything: bool = False
    trial: bool = False
    idempotent: bool = True
    destructive: bool = False  # it ends or deletes something irreversibly

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
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent,
                open_world_hint=False,
            ),
        )


AnyTool = Tool[Any]
