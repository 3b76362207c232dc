"""The contract: the server does what the OpenAPI document says, as checked by a fuzzer that reads it."""

import json
import random
import re
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collector.api.serving.contract_page import SECURITY_POLICY
from tests.access import OPERATOR_KEY, Closed, a_closed_server
from tests.answers import the_document
from tests.serving import an_export

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/connection_text.py",
    "collector/datasets",
    "collector/delivery",
    "collector/evaluation",
    "collector/experiments",
    "collector/gating",
    "collector/live",
    "collector/metric_monitor_text.py",
    "evaluators",
    "rules",
    "storage",
)

CONFIGURATION = Path(__file__).parent / "schemathesis.toml"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield a server with keys and one trace."""
    with a_closed_server(tmp_path_factory.mktemp("contract") / "data") as closed:
        body = an_export("a" * 32, "one", "two").SerializeToString()
        headers = {"content-type": "application/x-protobuf"}
        assert closed.ask("POST", "/api/v1/traces", key=OPERATOR_KEY, content=body, headers=headers).status_code == 200
        assert closed.running.store.wait_committed(10)
        yield closed


@pytest.fixture(scope="module")
def document(server: Closed) -> dict[str, Any]:
    """Return the OpenAPI document."""
    body: dict[str, Any] = server.ask("GET", "/openapi.json").json()
    return body


@pytest.mark.timeout(1200)
def test_the_server_does_what_the_document_says(tmp_path: Path, request: pytest.FixtureRequest, seed: int) -> None:
    """No request, valid or not, gets a server error, an answer that is not documented, or one of another shape."""
    with a_closed_server(tmp_path / "data") as server:  # of its own: the fuzzer deletes what keys it finds
        examples = request.config.getoption("--examples")
        configuration = CONFIGURATION if examples > 2 else some_covered(tmp_path, random.Random(seed))
        fuzz(f"http://{server.running.http}/openapi.json", configuration, tmp_path, examples)


def some_covered(folder: Path, chance: random.Random) -> Path:
    """Write a configuration by which a third of the operations get the ends of all ranges, and all that is invalid.

    They are four fifths of all requests. Another run takes other operations, and `make soak` all. What is made up at
    random is for each operation in each run.
    """
    operations = [f"{method.upper()} {path}" for path, methods in the_document()["paths"].items() for method in methods]
    left_out = json.dumps(chance.sample(operations, 2 * len(operations) // 3))
    file = folder / "schemathesis.toml"
    own = f"\n[[operations]]\ninclude-name = {left_out}\nphases.coverage.enabled = false\n"
    file.write_text(CONFIGURATION.read_text(encoding="utf-8") + own, encoding="utf-8")
    return file


def fuzz(url: str, configuration: Path, folder: Path, examples: int) -> None:
    """Run the fuzzer, which has to find nothing."""
    options = ["--max-examples", str(examples), "--no-color", "--continue-on-failure", "--warnings", "off"]
    fuzzer = Path(sysconfig.get_path("scripts"), "schemathesis")
    done = subprocess.run(
        [fuzzer, "--config-file", configuration, "run", url, "-H", f"Authorization: Bearer {OPERATOR_KEY}", *options],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,  # where the fuzzer keeps its findings
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert "Stateful" in done.stdout


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    """Tools read the version, and every operation says who may use it and how it fails."""
    assert document["openapi"].startswith("3.1")
    for methods in document["paths"].values():
        for operation in methods.values():
            if operation["security"]:
                assert re.search(r"Roles: [A-Z, ]+\.", operation["description"])
                assert {"400", "401", "403", "429"} <= operation["responses"].keys()
            assert "422" not in operation["responses"]


def test_every_reference_in_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    """Every schema that is referenced is defined."""
    named = set(re.findall(r"#/components/schemas/([A-Za-z0-9_]+)", str(document)))
    assert named <= document["components"]["schemas"].keys()
    assert "HTTPValidationError" not in document["components"]["schemas"]


def test_every_property_is_camel_case(document: dict[str, Any]) -> None:
    """Names on the wire are written one way, but for decisions and outcomes, which are called what SQL calls them."""
    names = [
        name
        for shape in document["components"]["schemas"].values()
        for name in shape.get("properties", {})
        if not re.fullmatch(r"[a-z][a-zA-Z0-9]*", name) and name not in {"sampled_out", "not_passed"}
    ]
    assert names == []


def test_the_page_needs_nothing_from_elsewhere(server: Closed, document: dict[str, Any]) -> None:
    """It names every operation, holds no script, no address of another host, and its policy forbids both."""
    answer = server.ask("GET", "/docs")
    assert answer.headers["content-security-policy"] == SECURITY_POLICY
    assert "default-src 'none'" in SECURITY_POLICY
    assert not re.search(r"<script|<link|<img|src=|https?://", answer.text)
    for path in document["paths"]:
        assert f"<code>{path}</code>" in answer.text


def test_no_secret_is_in_the_document(server: Closed) -> None:
    """Neither the operator's key nor any other."""
    text = server.ask("GET", "/openapi.json").text + server.ask("GET", "/docs").text
    assert [key for key in server.keys.values() if key in text] == []


def create(server: Closed, name: str, key: str, **more: Any) -> httpx.Response:
    """Ask for a key, with an `Idempotency-Key`."""
    fields = {"name": name, "role": "VIEWER"} | more
    return server.ask(
        "POST", "/api/v1/api-keys", key=server.keys["admin"], json=fields, headers={"idempotency-key": key}
    )


def test_a_repeated_request_is_done_once(server: Closed) -> None:
    """The same request with the same key is answered alike, also with the secret, and makes nothing more."""
    first, second = create(server, "twice", "a-1"), create(server, "twice", "a-1")
    assert (first.status_code, first.json()) == (second.status_code, second.json())
    assert (first.headers.get("idempotency-replayed"), second.headers["idempotency-replayed"]) == (None, "true")
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    names = [key["name"] for key in server.ask("GET", "/api/v1/api-keys", key=OPERATOR_KEY).json()]
    assert names.count("twice") == 1


def test_a_key_for_another_request_is_refused(server: Closed) -> None:
    """A client that uses a key twice for unlike requests learns that it does."""
    assert create(server, "one", "b-1").status_code == 201
    assert create(server, "two", "b-1").status_code == 409
    assert create(server, "three", "").status_code == 400
    assert create(server, "", "b-2").status_code == 400
    assert create(server, "corrected", "b-2").status_code == 201
    assert create(server, "four", "with space").status_code == 400


def test_another_caller_has_keys_of_its_own(server: Closed) -> None:
    """The answer stored under one caller's idempotency key is not returned to another caller with the same key."""
    made = create(server, "own", "c-1").json()
    fields = {"name": "own", "role": "VIEWER"}
    other = server.ask(
        "POST", "/api/v1/api-keys", key=OPERATOR_KEY, json=fields, headers={"idempotency-key": "c-1"}
    ).json()
    assert made["id"] != other["id"]


def test_a_body_beyond_the_limit_is_refused(server: Closed) -> None:
    """Also one that does not say how large it is, and one that is kept for repetition."""

    def endless() -> Iterator[bytes]:
        for _ in range(10):
            yield bytes(1 << 20)

    json_type = {"content-type": "application/json"}
    for headers in (json_type, json_type | {"idempotency-key": "d-1"}):
        answer = server.ask("POST", "/api/v1/api-keys", key=OPERATOR_KEY, content=endless(), headers=headers)
        assert answer.status_code == 413, answer.text
    large = server.ask("POST", "/api/v1/sql", key=OPERATOR_KEY, content=bytes(9 << 20), headers=json_type)
    assert large.status_code == 413


def test_every_answer_carries_its_number(server: Closed) -> None:
    """A request id from the caller is kept if it is harmless, else there is a new one."""
    answer = server.ask("GET", "/health", headers={"x-request-id": "abc-1.2_3"})
    assert answer.headers["x-request-id"] == "abc-1.2_3"
    for number in ("x" * 65, "a b", "<b>"):
        made = server.ask("GET", "/api/v1/traces", headers={"x-request-id": number})
        assert re.fullmatch("[0-9a-f]{16}", made.headers["x-request-id"])


def test_paths_that_are_none_are_problems_too(server: Closed) -> None:
    """404 and 405 have the same shape as all errors, and 405 names the allowed methods."""
    missing = server.ask("GET", "/nowhere", key=OPERATOR_KEY)
    wrong = server.ask("PUT", "/api/v1/api-keys", key=OPERATOR_KEY, json={})
    assert [answer.status_code for answer in (missing, wrong)] == [404, 405]
    assert "allow" in wrong.headers
    for answer in (missing, wrong):
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error"] == answer.json()["detail"]
