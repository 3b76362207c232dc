"""Keys and the audit as pages, and who may do what on the pages of operators."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.access import Closed, a_closed_server, request
from tests.browser import PHONE, a_page
from tests.live import until
from tests.paging import Visit, token_on
from tests.serving import a_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("operations")

HOSTILE = "<script>alert(1)</script>\u202e & \"'"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield one server with keys for all."""
    with a_closed_server(tmp_path_factory.mktemp("keys") / "data") as closed:
        yield closed


def signed_in(server: Closed, name: str) -> Visit:
    """Sign in with a key; return the browser."""
    visit = Visit(f"http://{server.running.http}")
    assert visit.send("/sign-in", "/sign-in", key=server.keys[name]).status_code == 303
    return visit


def made(visit: Visit, **fields: str) -> tuple[str, str]:
    """Create a key with the form; return its text, and its id as the list has it."""
    answer = visit.send("/keys/new", "/keys/new", **fields)
    assert answer.status_code == 201, answer.text
    text = re.search(r"tj_[A-Za-z0-9_-]{43}", answer.text)
    assert text is not None
    ids = re.findall(r'id="(key_[0-9a-f]+)"', visit.get("/keys").text)
    return text[0], ids[-1]


def test_a_key_is_shown_once_disabled_and_deleted(server: Closed) -> None:
    """The text stands on the answer alone, opens what its role may, and nothing after the question was answered."""
    with signed_in(server, "admin") as visit:
        text, key_id = made(visit, name=HOSTILE, role="VIEWER", tenantId="acme", expiresAt="2099-01-31T10:00")
        page = visit.get("/keys").text
        assert (text in page, "<script>alert" in page, "2099-01-31 10:00:00 UTC" in page) == (False, False, True)
        assert server.ask("GET", "/api/v1/traces", key=text).status_code == 200
        question = visit.get(f"/keys/{key_id}/disable").text
        assert ("<script>alert" in question, "no longer give access" in question) == (False, True)
        assert visit.send(f"/keys/{key_id}/disable", f"/keys/{key_id}/disable").status_code == 303
        assert server.ask("GET", "/api/v1/traces", key=text).status_code == 401
        assert visit.send(f"/keys/{key_id}/delete", f"/keys/{key_id}/delete").status_code == 303
        assert (key_id in visit.get("/keys").text, visit.get(f"/keys/{key_id}/delete").status_code) == (False, 404)


@pytest.mark.parametrize(
    "wrong, field",
    [
        ({"name": ""}, "name"),
        ({"role": "KING"}, "role"),
        ({"tenantId": "no such/name"}, "tenantId"),
        ({"expiresAt": "soon"}, "expiresAt"),
    ],
)
def test_what_is_wrong_with_a_key_stands_beside_its_field(server: Closed, wrong: dict[str, str], field: str) -> None:
    """The form comes back with the typed values, and no key is made."""
    with signed_in(server, "admin") as visit:
        before = visit.get("/keys").text.count("<tr")
        answer = visit.send("/keys/new", "/keys/new", **({"name": "x", "role": "VIEWER"} | wrong))
        assert (answer.status_code, f'id="f-{field}-wrong"' in answer.text) == (400, True)
        assert visit.get("/keys").text.count("<tr") == before


def test_a_key_of_a_tenant_administers_its_tenant_alone(server: Closed) -> None:
    """Its pages show keys and entries of its tenant, make such keys, and know no others."""
    with signed_in(server, "admin of acme") as visit, signed_in(server, "admin") as admin:
        page = visit.get("/keys").text
        assert ("viewer of acme" in page, "viewer of other" in page) == (True, False)
        refused = visit.send("/keys/new", "/keys/new", name="x", role="VIEWER", tenantId="other")
        assert (refused.status_code, 'id="f-tenantId-wrong"' in refused.text) == (403, True)
        other = re.search(r'id="(key_[0-9a-f]+)">\s*<td class="named"><bdi>viewer of other', admin.get("/keys").text)
        assert other is not None
        assert visit.get(f"/keys/{other[1]}/delete").status_code == 404
        assert visit.send("/keys/new", f"/keys/{other[1]}/delete").status_code == 404
        assert visit.get("/audit").is_success
        assert [visit.get(path).status_code for path in ("/connections", "/webhooks", "/jobs")] == [200] * 3
        assert [visit.get(path).status_code for path in ("/projects", "/status")] == [403] * 2
        menu = visit.get("/traces").text.partition('aria-label="Main"')[2].partition("</nav>")[0]
        looked_at, looked_after = (
            ["traces", "sessions", "quality", "alerts", "rules", "review", "datasets", "experiments", "playground"],
            ["connections", "webhooks", "keys", "jobs", "audit"],
        )
        assert re.findall(r'href="/(\w+)"', menu) == looked_at + looked_after


def test_the_audit_is_filtered_and_paged(server: Closed) -> None:
    """The audit is filtered by key, by a part of the path and by outcome, and older entries are behind a link."""
    for number in range(120):
        server.ask("POST", f"/api/v1/projects/p{number}/rules", key=server.keys["viewer"], json={})
    with signed_in(server, "admin") as visit:
        page = until(lambda: visit.get("/audit?path=/rules").text, lambda text: "/p119/" in text)
        assert page.count("/rules<") == 100
        older = re.search(r'href="(/audit\?[^"]*before=\d+[^"]*)"', page)
        assert older is not None
        rest = visit.get(older[1].replace("&amp;", "&")).text
        assert (rest.count("/rules<"), "/p0/" in rest) == (20, True)
        assert "/rules<" not in visit.get("/audit?outcome=done").text
        assert visit.get("/audit?outcome=refused&key=viewer").text.count("/rules<") == 100
        assert "No entries match" in visit.get("/audit?key=nobody").text
        assert visit.get("/audit?before=99999999999999999999999").is_success


def test_the_api_filters_the_audit_alike(server: Closed) -> None:
    """`key`, `path` and `refused` select the matching entries, and unknown parameters are refused."""
    server.ask("POST", "/api/v1/projects/alike/rules", key=server.keys["viewer"], json={})

    def ask(query: str) -> list[tuple[str, int]]:
        answer = server.ask("GET", f"/api/v1/audit?size=1000&{query}", key=server.keys["admin"]).json()
        return [(each["path"], each["status"]) for each in answer["content"]]

    until(lambda: ask("path=/alike/"), lambda entries: entries == [("/api/v1/projects/alike/rules", 403)])
    assert ask("path=/alike/&refused=false") == ask("path=/alike/&key=nobody") == []
    assert ask("path=/alike/&refused=true&key=viewer") == ask("path=/alike/")
    assert server.ask("GET", "/api/v1/audit?colour=blue", key=server.keys["admin"]).status_code == 400


def test_a_viewer_looks_and_is_offered_no_change(server: Closed) -> None:
    """Pages that he may see hold no button of what he may not do, and its forms refuse him."""
    with signed_in(server, "viewer") as visit:
        token = token_on(visit.get("/traces").text)
        for path in ("/connections", "/webhooks", "/projects", "/jobs", "/status"):
            page = visit.get(path)
            assert page.is_success
            forms = set(re.findall(r'<form method="post" action="([^"]+)"', page.text))
            links = set(re.findall(r'href="(/\w+/(?:new|retry|sweep)[^"]*)"', page.text))
            assert (forms, links) == ({"/sign-out"}, set()), path
        for path in ("/connections/new", "/webhooks/new", "/projects/sweep", "/projects/unpin", "/jobs/retry"):
            assert visit.client.post(visit.origin + path, data={"csrf": token}).status_code == 403, path
        assert [visit.get(path).status_code for path in ("/keys", "/audit", "/projects/sweep")] == [403] * 3


def test_an_editor_retries_and_administers_nothing(server: Closed) -> None:
    """Jobs are his, connections, webhooks and sweeps are not."""
    with signed_in(server, "editor") as visit:
        assert visit.get("/jobs/retry").is_success
        assert visit.send("/jobs/retry", "/jobs/retry", rule="", kind="").status_code == 303
        assert [visit.get(path).status_code for path in ("/connections/new", "/projects/sweep")] == [403] * 2


def test_the_first_key_closes_the_server_and_cannot_be_the_last_to_go(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The form refuses a first key that administers nothing, shows the one that does, and then asks for it."""
    with a_server(tmp_path_factory.mktemp("first") / "data") as running, Visit(f"http://{running.http}") as visit:
        assert "This is the first key" in visit.get("/keys/new").text
        assert visit.send("/keys/new", "/keys/new", name="x", role="VIEWER").status_code == 409
        answer = visit.send("/keys/new", "/keys/new", name="x", role="ADMIN")
        text = re.search(r"tj_[A-Za-z0-9_-]{43}", answer.text)
        assert text is not None
        assert visit.get("/keys").status_code == 303
        assert visit.send("/sign-in", "/sign-in", key=text[0]).status_code == 303
        (key_id,) = re.findall(r'id="(key_[0-9a-f]+)"', visit.get("/keys").text)
        for action in ("disable", "delete"):
            refused = visit.send(f"/keys/{key_id}/{action}", f"/keys/{key_id}/{action}")
            assert (refused.status_code, "this is the last key that can administer" in refused.text) == (409, True)
        assert request(f"{visit.origin}/api/v1/traces", key=text[0]).is_success


def test_keys_are_made_and_copied_in_a_browser(server: Closed, browser: "Browser") -> None:
    """On a phone in the dark the pages of keys are sound, and the button copies the key that is shown."""
    options = {"viewport": PHONE, "color_scheme": "dark", "permissions": ["clipboard-read", "clipboard-write"]}
    with a_page(browser, f"http://{server.running.http}", **options) as watch:
        watch.open("/sign-in?next=/keys/new")
        watch.page.fill("[name=key]", server.keys["admin"])
        watch.page.keyboard.press("Enter")
        watch.page.fill("[name=name]", "made in a browser")
        watch.page.keyboard.press("Enter")
        watch.page.click("[data-copy-from]")
        watch.page.wait_for_selector("text=Copied")
        copied = watch.page.evaluate("navigator.clipboard.readText()")
        assert copied == watch.page.input_value("#secret")
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)
        watch.open("/keys")
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)
        watch.page.get_by_role("link", name="Delete made in a browser").click()
        watch.page.wait_for_selector("text=leaves the list")
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)
    assert server.ask("GET", "/api/v1/traces", key=copied).is_success
