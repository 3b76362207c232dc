"""A server behind a reverse proxy under a path: pages, API, OTLP and the protocol for models."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser

from collector.app import Running, running
from collector.listeners.path_prefix import page_under
from collector.settings import BadSettings, Settings
from collector.settings_loading import load_settings
from tests.live import until
from tests.serving import ANY_PORT, PROTOBUF, a_server, an_export, run

PREFIX = "/tools/tj"
KEY = "operator-key-of-this-test"
TRACE = "0af7651916cd43dd8448eb211c80319c"
_LINK = re.compile(r'\s(?:href|src|action|formaction|data-(?!root)[a-z]+)="(/[^"]*)"')


@contextmanager
def a_proxy(server: str, *, strips: bool) -> Iterator[str]:
    """Start a loopback reverse proxy with the server under a path and nothing else; yield its address."""

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            if not self.path.startswith((f"{PREFIX}/", f"{PREFIX}?")):
                self.send_error(404, "not of this server")
                return
            path = self.path.removeprefix(PREFIX) if strips else self.path
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            answer = httpx.request(
                self.command, f"http://{server}{path}", content=body, headers=headers, trust_env=False, timeout=60
            )
            self.send_response(answer.status_code)
            for name, value in answer.headers.multi_items():
                if name not in {"content-length", "content-encoding", "transfer-encoding", "connection"}:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that the base class gave it
            """Log nothing."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = Thread(target=proxy.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


@pytest.fixture(scope="module", params=[True, False], ids=["strips", "keeps"])
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, str]]:
    """Yield a server with a trace, and the address of a proxy that takes the prefix off or keeps it."""
    data = tmp_path_factory.mktemp("prefix") / "data"
    with a_server(data, path_prefix=PREFIX, api_key=KEY) as server, a_proxy(server.http, strips=request.param) as proxy:
        export = an_export(TRACE, "root", "child")
        export.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="session.id").value.string_value = "a/b c"
        sent = httpx.post(
            f"{proxy}{PREFIX}/v1/traces",  # OTLP at the address of the pages
            content=export.SerializeToString(),
            headers={"content-type": PROTOBUF, "authorization": f"Bearer {KEY}"},
            trust_env=False,
        )
        assert sent.status_code == 200, sent.text
        yield server, proxy


def a_client(proxy: str) -> httpx.Client:
    """Build a client of the API, with the key."""
    headers = {"authorization": f"Bearer {KEY}"}
    return httpx.Client(base_url=proxy, headers=headers, trust_env=False, timeout=60)


@pytest.mark.costly(
    "collector/access/proxies.py",
    "collector/api/base",
    "collector/api/serving",
    "collector/listeners/forwarded.py",
    "collector/listeners/path_prefix.py",
    "collector/path_names.py",
    "collector/web",
)
def test_all_links_of_all_pages_lead_through_the_proxy(proxied: tuple[Running, str]) -> None:
    """Every page that links lead to is there, with its style, scripts and forms, and no link leaves the prefix."""
    _, proxy = proxied
    with a_client(proxy) as client:
        until(lambda: client.get(f"{PREFIX}/api/v1/sessions").json()["content"], bool)
        rule = {"name": "tools", "target": "TRACE", "evaluator": "tool_error"}
        made = client.post(f"{PREFIX}/api/v1/projects/shop/trace-eval-rules", json=rule)
        assert made.headers["location"].startswith(f"{PREFIX}/api/v1/")
        assert client.get(made.headers["location"]).status_code == 200
        waiting, seen = [f"{PREFIX}/"], set[str]()
        while waiting:
            path = waiting.pop()
            answer = client.get(path, follow_redirects=True)
            assert answer.status_code == 200, (path, answer.status_code)
            if not answer.headers["content-type"].startswith("text/html"):
                continue
            for link in map(unescape, _LINK.findall(answer.text)):
                assert link.startswith(f"{PREFIX}/"), (path, link)
                shape = re.sub(r"[0-9a-f]{16,}|=[^&]*", "…", link.partition("#")[0])
                is_page = 'action="' + link not in answer.text and "sign-out" not in link
                if shape not in seen and is_page and len(seen) < 150:
                    seen.add(shape)
                    waiting.append(link.partition("#")[0])
        assert {f"{PREFIX}/traces", f"{PREFIX}/sessions/a%2Fb%20c", f"{PREFIX}/rules"} <= seen


def test_signing_in_goes_on_to_the_page_under_the_prefix(
    proxied: tuple[Running, str],
    browser: Browser,
) -> None:
    """A browser that signs in gets the page that it asked for; its cookie is for the prefix only."""
    _, proxy = proxied
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{proxy}{PREFIX}/traces?project=shop")
    assert urlsplit(page.url).path == f"{PREFIX}/sign-in"
    page.fill("input[name=key]", KEY)
    page.press("input[name=key]", "Enter")
    page.wait_for_url(f"{proxy}{PREFIX}/traces?project=shop")
    page.click("[data-theme-switch]")
    assert {cookie.get("path") for cookie in context.cookies()} == {PREFIX}
    page.goto(f"{proxy}{PREFIX}/traces/{TRACE}")
    page.get_by_text("child", exact=True).first.wait_for()
    context.close()


def test_the_api_under_a_prefix_tells_its_address(proxied: tuple[Running, str]) -> None:
    """The contract names the prefix, `llms.txt` links under it, and `/traces/` is sent to the page under it."""
    server, proxy = proxied
    with a_client(proxy) as client:
        assert client.get(f"{PREFIX}/openapi.json").json()["servers"] == [{"url": PREFIX}]
        assert f"]({PREFIX}/mcp)" in client.get(f"{PREFIX}/llms.txt").text
        moved = client.get(f"{PREFIX}/traces/")
        assert urlsplit(moved.headers["location"]).path == f"{PREFIX}/traces"
        health = client.get(f"http://{server.http}/health")  # a probe asks the server itself
        assert health.status_code == 200


def test_commands_and_models_reach_a_server_under_a_prefix(proxied: tuple[Running, str]) -> None:
    """`--server` takes the whole address, and `/mcp` and `/mcp/` answer there."""
    _, proxy = proxied
    listed = run("traces", "list", "--server", f"{proxy}{PREFIX}", env={"TRACEJURY_API_KEY": KEY})
    assert TRACE in listed.output, listed.output
    with a_client(proxy) as client:
        for path in ("/mcp", "/mcp/"):
            ping = client.post(
                PREFIX + path,
                json={"jsonrpc": "2.0", "id": 1, "method": "ping"},
                headers={"accept": "application/json, text/event-stream"},
            )
            assert ping.json()["result"] == {}, ping.text


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/traces/", "/v1/logs", "/v1/metrics"])
def test_otlp_is_taken_at_the_address_of_the_pages(tmp_path: Path, path: str) -> None:
    """An exporter that was given the address of the pages is answered as at the one of OTLP."""
    with a_server(tmp_path / "data") as server:
        body = an_export(TRACE, "root").SerializeToString() if "traces" in path else b""
        for address in (server.http, server.otlp_http):
            sent = httpx.post(
                f"http://{address}{path}", content=body, headers={"content-type": PROTOBUF}, trust_env=False
            )
            assert sent.status_code == 200, sent.text
            assert sent.headers["content-type"] == PROTOBUF


@pytest.mark.parametrize("prefix", ["tools", "/tools/", "/a//b", "/a/../b", "/a b", "/a%20b", "/<b>", "//host"])
def test_what_is_no_prefix_is_refused(prefix: str) -> None:
    """The setting takes the beginning of a path, and says so."""
    with pytest.raises(BadSettings, match="PATH_PREFIX: must begin with /"):
        load_settings(None, {}, {"TRACEJURY_PATH_PREFIX": prefix})


def test_a_prefix_that_is_a_page_is_refused(tmp_path: Path) -> None:
    """A prefix cannot be a path of the server: a request for it would be ambiguous."""
    addresses = dict.fromkeys(("grpc", "otlp_http", "http"), ANY_PORT)
    settings = Settings.model_validate({"data": tmp_path / "data", "path_prefix": "/traces/of"} | addresses)

    async def start() -> None:
        async with running(settings):
            pass

    with pytest.raises(BadSettings, match="path_prefix: /traces is a path of the server itself"):
        ThreadPoolExecutor(1).submit(asyncio.run, start()).result()  # the browser has a loop in this thread


def test_text_of_spans_is_no_link() -> None:
    """Only attributes of pages begin with the prefix: not texts of spans, and no address of another host."""
    page = '<a href="//elsewhere.example/"> href=&#34;/x&#34; <a class="b" href="/">'
    assert page_under("/p", page) == '<a href="//elsewhere.example/"> href=&#34;/x&#34; <a class="b" href="/p/">'
