"""Names from outside in paths: projects, sessions and services with any characters."""

from collections.abc import Iterator
from urllib.parse import unquote

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.routing import BaseRoute, Match

from collector.api.serving.application import routes
from collector.app import Running
from collector.path_names import name_in, path_segment, route_path
from collector.web.site import make_site
from tests.live import a_client, until
from tests.serving import PROTOBUF, a_server, an_export, run

pytestmark = pytest.mark.costly("collector/api", "collector/cli", "collector/path_names.py", "collector/web")

NAMES = (
    "team/app",
    "a/trace-eval-rules/test",
    "a/../b",
    "..",
    ".",
    "~..",
    "what?",
    "a#b",
    "100%",
    "50%2Fhalf",
    "two words",
    " spaced ",
    "a;b&c=d+e",
    "\N{GRINNING FACE} \N{LATIN SMALL LETTER E WITH ACUTE}",
    "quote\"<b>'",
    "back\\slash",
    "line\nbreak",
    "//host/path",
    "*",
)
_WITH_NAMES: tuple[BaseRoute, ...] = tuple(
    route for route in (*routes(), *make_site().routes) if "{" in getattr(route, "path", "")
)


def _scope(path: str, method: str) -> dict[str, object]:
    return {"type": "http", "method": method, "path": unquote(path), "raw_path": path.encode(), "headers": []}


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
@example("team/app")
@example("..")
@example("~.")
@example("%2F")
def test_a_path_carries_any_name(name: str) -> None:
    """`path_segment` writes one segment, which no client resolves and which is read as the same name."""
    segment = path_segment(name)
    assert "/" not in segment
    assert unquote(segment) not in {".", ".."}
    assert name_in(route_path(_scope(f"/{segment}", "GET"))[1:]) == name


@pytest.mark.parametrize("name", NAMES)
def test_all_routes_take_any_name(name: str) -> None:
    """Each parameter of each route may be any name, whatever the others are; the route is the one that is meant."""
    for route in _WITH_NAMES:
        names = dict.fromkeys(route.param_convertors, name)  # type: ignore[attr-defined]
        path = route.path_format.format_map({key: path_segment(each) for key, each in names.items()})  # type: ignore[attr-defined]
        for method in route.methods or ():  # type: ignore[attr-defined]
            match, child = route.matches(_scope(path, method))
            assert match is Match.FULL, path
            assert child["path_params"] == names, path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server with a trace of each name: its project, service and session have that name."""
    with a_server(tmp_path_factory.mktemp("names") / "data") as running:
        for number, name in enumerate(NAMES, start=1):
            export = an_export(f"{number:032x}", "root", project=name)
            export.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="session.id").value.string_value = name
            body = export.SerializeToString()
            with a_client() as client:
                client.post(
                    f"http://{running.otlp_http}/v1/traces", content=body, headers={"content-type": PROTOBUF}
                ).raise_for_status()
        with a_client() as client:
            pages = f"http://{running.http}/api/v1/sessions"
            until(
                lambda: client.get(pages, params={"size": 100}).json()["content"],
                lambda sessions: len(sessions) == len(NAMES),
            )
        yield running


@pytest.mark.parametrize("name", NAMES)
def test_a_project_of_any_name_works(server: Running, name: str) -> None:
    """Rules, webhooks, runs and experiments of a project are made, listed and reached by the `Location` of each."""
    with httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=60) as client:
        root = f"/api/v1/projects/{path_segment(name)}"
        rule = {"name": f"of {name!r}", "target": "TRACE", "evaluator": "tool_error"}
        made = client.post(f"{root}/trace-eval-rules", json=rule)
        assert made.status_code == 201, made.text
        assert client.get(made.headers["location"]).json()["name"] == rule["name"]
        assert client.get(f"{root}/trace-eval-rules").json()[-1]["project"] == (None if name == "*" else name)
        hook = client.post(f"{root}/alert-webhooks", json={"url": "https://hooks.example.org/x"})
        assert hook.status_code == 201, hook.text
        assert client.get(hook.headers["location"]).json()["projectName"] == name
        assert client.get(f"{hook.headers['location']}/deliveries").json()["content"] == []
        begun = client.post(f"{root}/runs", json={"experimentName": "e"})
        if name != "*":
            assert begun.status_code == 201, begun.text
            assert [each["name"] for each in client.get(f"{root}/experiments").json()] == ["e"]
        operations = client.get(f"/jaeger/api/services/{path_segment(name)}/operations").json()["data"]
        assert operations == ["root"]


@pytest.mark.parametrize("name", NAMES)
def test_a_session_of_any_name_is_shown(server: Running, name: str) -> None:
    """API, command line and page show it, and the links of the trace, as a browser resolves them, lead to it."""
    with httpx.Client(base_url=f"http://{server.http}", trust_env=False, timeout=60) as client:
        assert client.get(f"/api/v1/sessions/{path_segment(name)}").json()["sessionId"] == name
        number = NAMES.index(name) + 1
        for page in ("/sessions", f"/traces/{number:032x}"):
            text = client.get(page).text
            link = f'"/sessions/{path_segment(name)}"'.replace("'", "&#39;")
            assert link in text, (page, link)
        shown = client.get(httpx.URL(f"http://{server.http}/").join(f"sessions/{path_segment(name)}"))
        assert shown.status_code == 200
        assert "root" in shown.text or "asked" in shown.text
    listed = run("sessions", "show", name, "--server", f"http://{server.http}")
    assert listed.exit_code == 0, listed.output
