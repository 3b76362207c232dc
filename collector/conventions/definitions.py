"""Tool definitions, read by their shape: OpenAI's, Anthropic's, Gemini's, Bedrock's, Vercel's, Pydantic AI's."""

from collections.abc import Iterator

from collector.conventions.python_repr import written_map
from collector.conventions.values import NotJson, as_list, decode
from storage.records import JsonValue, OfferedTool

_SCHEMAS = (
    "parameters",
    "inputSchema",
    "input_schema",
    "parameters_json_schema",
    "parametersJsonSchema",
    "args_schema",
    "json_schema",
    "schema",
)
_LISTS = ("function_declarations", "functionDeclarations", "tools", "function_tools")
_WRAPPERS = ("function", "toolSpec", "tool", "data")  # OpenAI, Bedrock, OpenInference, Haystack
_MAX_WRAPPERS = 6


def definitions_of(value: object, depth: int = _MAX_WRAPPERS) -> Iterator[OfferedTool]:
    """Yield the definitions in a list or map, also if each is JSON text by itself."""
    for item in as_list(_opened(value)):
        tool = _opened(item)
        if isinstance(tool, list) and depth:
            yield from definitions_of(tool, depth - 1)
        elif isinstance(tool, dict):
            inner = next((tool[key] for key in _LISTS if isinstance(tool.get(key), list)), None)
            if inner is not None and depth:
                yield from definitions_of(inner, depth - 1)
            else:
                yield from _definition(tool)


def once_by_name(definitions: Iterator[OfferedTool]) -> tuple[OfferedTool, ...]:
    """Return one definition for each name: the first one with a schema, else the first one."""
    by_name: dict[str, OfferedTool] = {}
    for definition in definitions:
        known = by_name.get(definition.name)
        if known is None or (known.parameters is None and definition.parameters is not None):
            by_name[definition.name] = definition
    return tuple(by_name.values())


def _definition(tool: dict[str, JsonValue], depth: int = _MAX_WRAPPERS) -> Iterator[OfferedTool]:
    for wrapper in _WRAPPERS:
        inner = tool.get(wrapper)
        if isinstance(inner, dict):
            tool = inner
    name = tool.get("name")
    if not isinstance(name, str) or not name:
        whole = _opened(tool.get("json_schema"))  # OpenInference: the whole definition, not only parameters
        if isinstance(whole, dict) and depth:
            yield from _definition(whole, depth - 1)
        return
    schema = _opened(next((tool[key] for key in _SCHEMAS if tool.get(key) is not None), None))
    if isinstance(schema, dict) and schema.keys() == {"json"}:  # Bedrock
        schema = schema["json"]
    description = tool.get("description")
    yield OfferedTool(name=name, description=description if isinstance(description, str) else None, parameters=schema)


def _opened(value: object) -> JsonValue:
    if isinstance(value, str):
        try:
            return decode(value)
        except NotJson:
            return written_map(value)
    return value  # type: ignore[return-value] # lists and maps of attributes are clean but for bytes, which name no tool
