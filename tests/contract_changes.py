"""Changes of the OpenAPI document that break clients of the document before."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

Document = Mapping[str, Any]


def breaking_changes(before: Document, after: Document) -> list[str]:
    """Return routes and fields that are gone or have another type, and what requests need that they did not need."""
    return [*_of_operations(before["paths"], after["paths"]), *_of_schemas(before, after)]


def _of_operations(before: Document, after: Document) -> Iterator[str]:
    operations = {
        (path, method): operation for path, by_method in after.items() for method, operation in by_method.items()
    }
    gone, changed = [], []
    for path, methods in before.items():
        for method, earlier in methods.items():
            name, later = f"{method.upper()} {path}", operations.get((path, method))
            if later is None:
                gone.append(f"{name} is gone")
                continue
            changed += [f"{name} needs {each}" for each in sorted(_needed(later) - _needed(earlier))]
            succeeds = [status for status in earlier["responses"] if status < "300"]
            changed += [f"{name} answers no {status}" for status in succeeds if status not in later["responses"]]
    yield from gone
    yield from changed


def _needed(operation: Document) -> set[str]:
    return {each["name"] for each in operation.get("parameters", ()) if each.get("required")}


def _of_schemas(before: Document, after: Document) -> Iterator[str]:
    earlier, later = before["components"]["schemas"], after["components"]["schemas"]
    sent = _sent(after)
    for name in sorted(earlier):
        if name not in later:
            yield f"{name} is gone"
            continue
        fields = later[name].get("properties", {})
        for field, schema in earlier[name].get("properties", {}).items():
            if field not in fields:
                yield f"{name}.{field} is gone"
            elif _type(fields[field]) != _type(schema):
                yield f"{name}.{field} has another type"
        if name in sent:
            needed = set(later[name].get("required", ())) - set(earlier[name].get("required", ()))
            yield from (f"{name} needs {each}" for each in sorted(needed))


def _type(schema: Document) -> object:
    return {key: value for key, value in schema.items() if key not in {"title", "description", "default"}}


def _sent(document: Document) -> set[str]:
    bodies = [
        operation.get("requestBody") for by_method in document["paths"].values() for operation in by_method.values()
    ]
    return set(re.findall(r"#/components/schemas/(\w+)", str(bodies)))
