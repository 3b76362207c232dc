"""The OpenAPI document as one HTML page, without scripts or external resources."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #1c2330; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { background: #f4f5f8; padding: .8rem; overflow-x: auto; }
details { border: 1px solid #d5d9e2; border-radius: 6px; margin: .5rem 0; padding: .5rem .9rem; }
summary { cursor: pointer; }
summary b { display: inline-block; min-width: 4.5rem; }
table { border-collapse: collapse; width: 100%; }
td { border-top: 1px solid #e4e7ee; padding: .3rem .6rem .3rem 0; vertical-align: top; }
.quiet { color: #5b6577; }
"""
_DIGEST: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page runs no scripts and loads nothing; only its own style applies."""


def page(document: Mapping[str, Any]) -> str:
    """Render the OpenAPI document as a page."""
    info = document["info"]
    operations = "".join(
        _operation(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    )
    schemas = "".join(
        f'<details id="{escape(name)}"><summary><code>{escape(name)}</code> {escape(schema.get("description", ""))}'
        f"</summary>{_json(schema)}</details>"
        for name, schema in sorted(document["components"]["schemas"].items())
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tracejury API</title>'
        f"<style>{_STYLE}</style></head><body><h1>{escape(info['title'])} {escape(info['version'])}</h1>"
        f'<p>{escape(info["description"])}</p><p>For tools: <a href="openapi.json">openapi.json</a></p>'
        f"{operations}<h2>Shapes</h2>{schemas}</body></html>"
    )


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> str:
    description = "".join(f"<p>{escape(part)}</p>" for part in operation.get("description", "").split("\n\n"))
    return (
        f"<details><summary><b>{method.upper()}</b> <code>{escape(path)}</code> "
        f'<span class="quiet">{escape(operation.get("summary", ""))}</span></summary>{description}'
        f"{_table('Parameters', _parameters(operation))}{_body(operation)}{_table('Answers', _answers(operation))}"
        "</details>"
    )


def _parameters(operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for each in operation.get("parameters", ()):
        text = f"{escape(each.get('description', ''))} <code>{escape(json.dumps(each.get('schema', {})))}</code>"
        yield f"<code>{escape(each['name'])}</code> ({escape(each['in'])})", text


def _answers(operation: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for status, answer in sorted(operation["responses"].items()):
        shapes = [_shape(content.get("schema", {})) for content in answer.get("content", {}).values()]
        yield escape(status), f"{escape(answer.get('description', ''))} {' '.join(shapes)}"


def _body(operation: Mapping[str, Any]) -> str:
    contents = operation.get("requestBody", {}).get("content", {})
    rows = ((f"<code>{escape(kind)}</code>", _shape(content.get("schema", {}))) for kind, content in contents.items())
    return _table("Body", rows)


def _shape(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}"><code>{name}</code></a>'
    return _json(schema) if schema else ""


def _table(title: str, rows: Iterator[tuple[str, str]]) -> str:
    cells = "".join(f"<tr><td>{left}</td><td>{right}</td></tr>" for left, right in rows)
    return f"<h4>{title}</h4><table>{cells}</table>" if cells else ""


def _json(value: object) -> str:
    return f"<pre>{escape(json.dumps(value, indent=2, ensure_ascii=False))}</pre>"
