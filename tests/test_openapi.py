"""The contract as a document: every answer has a named model, and a change of it is seen by a person."""

import json
import re
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from collector.api.serving.application import MODULES
from collector.path_names import subject_of
from tests.answers import check_answer, the_document
from tests.contract_changes import breaking_changes

COMMITTED = Path(__file__).parents[1] / "docs" / "openapi.json"
FILE = {"type": "string", "format": "binary"}  # such as a version of a dataset, even if the file is JSON
MODEL = re.compile(r"#/components/schemas/(\w+)")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Return the OpenAPI document of this code."""
    return the_document()


def operations(document: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return every operation by its method and path."""
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def is_named(schema: dict[str, Any]) -> bool:
    """Return whether a schema is a named model, a list of one, or one of several."""
    of = [schema["items"]] if schema.get("type") == "array" else schema.get("anyOf", [schema])
    return all(MODEL.fullmatch(each.get("$ref", "")) for each in of)


def test_every_answer_in_json_has_a_named_model(document: dict[str, Any]) -> None:
    """Success and errors alike: a client that is made from the document has a class for each."""
    unnamed = [
        f"{name} {status}: {schema}"
        for name, operation in operations(document)
        for status, answer in operation["responses"].items()
        for kind, content in answer.get("content", {}).items()
        if "json" in kind
        and kind.endswith("json")
        and "ndjson" not in kind
        and (schema := content.get("schema", {})) != FILE
        and not is_named(schema)
    ]
    assert unnamed == []


def test_every_error_is_a_problem_and_nothing_else(document: dict[str, Any]) -> None:
    """But for /ready, which says how the server is."""
    unlike = [
        f"{name} {status}"
        for name, operation in operations(document)
        for status, answer in operation["responses"].items()
        if status >= "400" and "Problem" not in str(answer["content"]) and not name.endswith("/ready")
    ]
    assert unlike == []


def test_operations_have_names_that_clients_can_use(document: dict[str, Any]) -> None:
    """Each operation has a unique name, made of its subject and its action."""
    names = [operation["operationId"] for _, operation in operations(document)]
    assert len(set(names)) == len(names)
    assert [name for name in names if not re.fullmatch("[a-z]+(_[a-z]+)*", name)] == []


def test_every_model_has_a_title_of_its_own(document: dict[str, Any]) -> None:
    """Generators name classes after titles, and of two with the same one they lose an operation's response."""
    titles = Counter(schema["title"] for schema in document["components"]["schemas"].values() if "title" in schema)
    assert [title for title, models in titles.items() if models > 1] == []


def test_the_committed_document_is_that_of_this_code(document: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """A change of the contract shows in a file, and this failure lists what would break clients."""
    text = json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    if request.config.getoption("--update-golden"):
        COMMITTED.write_text(text, encoding="utf-8")
    before = json.loads(COMMITTED.read_text(encoding="utf-8"))
    broken = "\n".join(breaking_changes(before, document)) or "nothing that clients rely on"
    assert COMMITTED.read_text(encoding="utf-8") == text, (
        f"docs/openapi.json has changed; it breaks: {broken}\nTo commit the change, run pytest with --update-golden"
    )


def test_what_breaks_clients_is_told(document: dict[str, Any]) -> None:
    """A route, a field or a status that is gone, another type, and a new parameter that has to be there."""
    after = json.loads(json.dumps(document))
    del after["paths"]["/api/v1/status"]
    del after["components"]["schemas"]["AlertDocument"]["properties"]["kind"]
    after["components"]["schemas"]["JobDocument"]["properties"]["id"]["type"] = "string"
    after["components"]["schemas"]["NewKey"]["required"].append("expiresAt")
    listed = after["paths"]["/api/v1/alerts"]["get"]
    listed["parameters"].append({"name": "since", "in": "query", "required": True, "schema": {"type": "string"}})
    assert breaking_changes(document, document) == []
    assert breaking_changes(document, after) == [
        "GET /api/v1/status is gone",
        "GET /api/v1/alerts needs since",
        "AlertDocument.kind is gone",
        "JobDocument.id has another type",
        "NewKey needs expiresAt",
    ]


def an_answer(body: object) -> httpx.Response:
    """Build a response of /health about a job that is retried."""
    request = httpx.Request("POST", "http://127.0.0.1/api/v1/jobs/retry")
    return httpx.Response(200, json=body, request=request)


@pytest.mark.parametrize(
    "wrong", [{"retried": 1}, {"retried": "1", "more": False}, {"retried": 1, "more": False, "x": 1}]
)
def test_an_answer_that_its_model_does_not_describe_is_found(wrong: dict[str, object]) -> None:
    """A field that is missing, one of another type, and one that no model names."""
    check_answer(an_answer({"retried": 1, "more": False}))
    with pytest.raises(ValidationError):
        check_answer(an_answer(wrong))


def test_the_modules_of_routes_name_the_subjects_of_their_paths() -> None:
    """Commands on a directory load the modules of a path by its first segment, and would miss others."""
    for name, subjects in MODULES.items():
        paths = {route.path for route in import_module(f"collector.api.{name}").router.routes}
        assert sorted({subject_of(path) for path in paths}) == sorted(subjects), name
