"""The contract can make a client: what a generator makes of the committed document speaks with the server."""

import importlib
import json
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.access import OPERATOR_KEY, Closed, a_closed_server
from tests.serving import an_export

pytestmark = pytest.mark.costly("collector/api", "docs/openapi.json")

CONTRACT = Path(__file__).parents[1] / "docs" / "openapi.json"
PACKAGE = "generated_tracejury_client"
TRACE = "a" * 32


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the package that a generator makes, where Python finds it."""
    folder = tmp_path_factory.mktemp("client")
    (folder / "configuration.yaml").write_text("post_hooks: []\n")  # no formatting: it is not read
    generator = Path(sysconfig.get_path("scripts"), "openapi-python-client")
    paths = ["--path", str(CONTRACT), "--output-path", str(folder / PACKAGE)]
    options = ["--meta", "none", "--config", str(folder / "configuration.yaml")]
    subprocess.run([generator, "generate", *paths, *options], check=True, capture_output=True, timeout=200)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder / PACKAGE


def part(name: str) -> ModuleType:
    """Return a module of the client."""
    return importlib.import_module(f"{PACKAGE}.{name}")


def test_the_client_can_do_whatever_the_contract_has(generated: Path) -> None:
    """The generator leaves out operations that it does not understand, and there are none."""
    document: dict[str, Any] = json.loads(CONTRACT.read_text(encoding="utf-8"))
    named = {operation["operationId"] for methods in document["paths"].values() for operation in methods.values()}
    made = {module.stem for module in generated.glob("api/*/*.py") if module.stem != "__init__"}
    assert named - made == set()


def test_the_client_speaks_with_the_server(generated: Path, tmp_path: Path) -> None:
    """Stored resources are returned as objects, refusals as problems, and a rule is made and found."""
    assert generated.is_dir()
    with a_closed_server(tmp_path / "data") as server:
        _send_a_trace(server)
        client = part("client").AuthenticatedClient(
            base_url=f"http://{server.running.http}", token=OPERATOR_KEY, httpx_args={"trust_env": False}
        )
        with client:
            (summary,) = part("api.traces.traces_list_traces").sync(client=client).content
            trace = part("api.traces.traces_show_trace").sync(TRACE, client=client)
            missing = part("api.traces.traces_show_trace").sync("b" * 32, client=client)
            body = part("models").RulesCreateJsonBodyType0(name="slow", evaluator="tool_error")
            rule = part("api.rules.rules_create").sync("shop", client=client, body=body)
            rules = part("api.rules.rules_list_all").sync(client=client)
            status = part("api.status.status_status").sync(client=client)
    assert (summary.trace_id, summary.span_count) == (TRACE, 2)
    assert [span.name for span in trace.spans] == ["one", "two"]
    assert (missing.status, missing.error) == (404, f"no trace {'b' * 32} here")
    assert (rule.name, rules.content[0].id, rules.content[0].activity.decisions.matched) == ("slow", rule.id, 0)
    assert (status.spans.stored, status.server.state) == (2, "ready")


def _send_a_trace(server: Closed) -> None:
    content = an_export(TRACE, "one", "two").SerializeToString()
    headers = {"content-type": "application/x-protobuf"}
    assert server.ask("POST", "/api/v1/traces", key=OPERATOR_KEY, content=content, headers=headers).is_success
    assert server.running.store.wait_committed(10)
