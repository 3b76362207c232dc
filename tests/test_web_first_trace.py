"""A server without traces explains how to send some, and shows the first one without a click."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import a_page
from tests.certificates import a_certificate
from tests.serving import PROTOBUF, a_server, an_export
from tests.test_daily_tasks import now
from tests.test_path_prefix import PREFIX, a_proxy

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route

KEY = "operator-key-of-this-test"


@contextmanager
def serving(tmp_path: Path, way: str) -> Iterator[str]:
    """Start a server of a kind without traces; yield the address of its first page."""
    more: dict[str, Any] = {}
    if way == "tls":
        secret, chain = a_certificate()
        more = {"tls_cert": tmp_path / "cert.pem", "tls_key": tmp_path / "key.pem"}
        more["tls_cert"].write_bytes(chain)
        more["tls_key"].write_bytes(secret)
    elif way == "keys":
        more = {"api_key": KEY}
    elif way == "proxy":
        more = {"path_prefix": PREFIX}
    with ExitStack() as stack:
        server = stack.enter_context(a_server(tmp_path / "data", **more))
        if way == "proxy":
            yield stack.enter_context(a_proxy(server.http, strips=True)) + PREFIX
        else:
            yield f"{'https' if way == 'tls' else 'http'}://{server.http}"


def as_if_elsewhere(route: "Route") -> None:
    """Answer as a server does that takes itself to be somewhere else."""
    answer = route.fetch()
    host = urlsplit(route.request.url).netloc
    route.fulfill(response=answer, body=answer.text().replace(f"http://{host}", "http://elsewhere.example"))


def test_commands_name_the_address_that_the_browser_has(tmp_path: Path, browser: "Browser") -> None:
    """Behind a proxy that does not tell how it was reached, pages give the address that reached them."""
    with serving(tmp_path, "plain") as origin, a_page(browser, origin) as watch:
        for path in ("/datasets", "/review", "/experiments"):
            watch.page.route(f"**{path}", as_if_elsewhere)
            watch.open(path)
            assert origin in watch.page.locator("main pre").last.inner_text(), path


@pytest.mark.parametrize("path", ["/", "/traces"])
@pytest.mark.parametrize("way", ["plain", "keys", "tls", "proxy"])
def test_the_first_trace_comes_as_the_empty_page_says(tmp_path: Path, browser: "Browser", way: str, path: str) -> None:
    """The lines that the page shows are where spans are taken, and the page shows the trace by itself."""
    with serving(tmp_path, way) as origin, a_page(browser, origin, ignore_https_errors=True) as watch:
        watch.open(path)
        if way == "keys":
            watch.page.locator("input[name=key]").fill(KEY)
            watch.page.keyboard.press("Enter")
            watch.page.wait_for_url("**" + path)
        lines = (watch.page.locator("#no-traces pre").text_content() or "").split()
        shown = dict(line.split("=", 1) for line in lines)
        assert shown["OTEL_EXPORTER_OTLP_PROTOCOL"] == "http/protobuf"
        name, _, value = shown.get("OTEL_EXPORTER_OTLP_HEADERS", "x-none=").partition("=")
        assert (value != "") == (way == "keys")
        sent = watch.page.request.post(
            f"{shown['OTEL_EXPORTER_OTLP_ENDPOINT']}/v1/traces",
            data=now(an_export("0a" * 16, "the very first")).SerializeToString(),
            headers={"content-type": PROTOBUF, name: unquote(value).replace("KEY", KEY)},
        )
        assert sent.ok, sent.text()
        watch.page.locator("#no-traces").wait_for(state="detached")
        assert watch.page.locator(".tiles dd, [data-row]").first.is_visible()
