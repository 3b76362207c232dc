"""Saved views: made, shared by a link, changed and deleted, over HTTP and on pages, by those who may."""

import re
from collections.abc import Iterator
from html import unescape
from typing import get_args

import pytest

from collector.api.traces.list_filters import LABELS
from collector.api.traces.saved_views import PARAMETERS, list_query
from collector.web.traces.list_look import COLUMNS
from storage.operation.saved_views import MOST_VIEWS
from storage.query.trace_criteria import Ranking
from tests.access import Closed, a_closed_server
from tests.live import until
from tests.paging import Visit

pytestmark = pytest.mark.costly(
    "collector/access", "collector/api", "collector/web", "storage/operation", "storage/query"
)

ROOT = "/api/v1/saved-views"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield one server with keys for all."""
    with a_closed_server(tmp_path_factory.mktemp("views") / "data") as closed:
        yield closed


def made(server: Closed, name: str, query: str = "status=error", key: str = "editor") -> dict[str, object]:
    """Save a view over HTTP."""
    answer = server.ask("POST", ROOT, key=server.keys[key], json={"name": name, "query": query})
    assert (answer.status_code, answer.headers["etag"]) == (201, '"1"'), answer.text
    document: dict[str, object] = answer.json()
    return document


def signed_in(server: Closed, name: str) -> Visit:
    """Sign in with a key; return the browser."""
    visit = Visit(f"http://{server.running.http}")
    assert visit.send("/sign-in", "/sign-in", key=server.keys[name]).status_code == 303
    return visit


def test_a_view_may_say_what_the_list_can_be_asked() -> None:
    """The filters, the order and the look are those of the page, each once."""
    assert set(PARAMETERS) == {*LABELS, "sort", "columns", "density"}
    assert len(PARAMETERS) == len(set(PARAMETERS))
    for name in get_args(Ranking):
        assert list_query(f"?sort={name}&project=a+b&user=") == f"project=a+b&sort={name}"
    assert list_query(f"columns={','.join(COLUMNS)}").count("%2C") == len(COLUMNS) - 1
    assert list_query("") == ""


def test_a_view_is_saved_replaced_and_deleted(server: Closed) -> None:
    """It keeps its id and its link; a name is there once, and what no list can be asked is refused."""
    view = made(server, "errors", "?status=error&project=shop")
    place = f"{ROOT}/{view['id']}"
    columns = (view["query"], view["projectName"], view["createdBy"], view["path"])
    assert columns == ("project=shop&status=error", "shop", "editor", f"/traces?view={view['id']}")
    taken = {"name": "errors"}
    for wrong in (taken, {"name": " "}, {"name": "x", "query": "colour=blue"}, {"name": "x", "query": "a"}):
        status = 409 if wrong is taken else 400
        assert server.ask("POST", ROOT, key=server.keys["editor"], json=wrong).status_code == status, wrong
    changed = {"name": "slow", "query": "sort=duration"}
    stale = server.ask("PUT", place, key=server.keys["editor"], json=changed, headers={"if-match": '"7"'})
    assert stale.status_code == 412
    answer = server.ask("PUT", place, key=server.keys["editor"], json=changed, headers={"if-match": '"1"'})
    assert (answer.headers["etag"], answer.json()["id"], answer.json()["projectName"]) == ('"2"', view["id"], None)
    assert server.ask("GET", place, key=server.keys["viewer"]).json() == answer.json()
    assert server.ask("DELETE", place, key=server.keys["editor"]).status_code == 204
    assert server.ask("GET", place, key=server.keys["viewer"]).status_code == 404


def test_a_tenant_has_views_of_its_own(server: Closed) -> None:
    """It sees its own and the shared ones, changes its own alone, and its names are not others'."""
    shared, own = made(server, "of all"), made(server, "of all", key="editor of acme")
    listed = server.ask("GET", ROOT, key=server.keys["viewer of acme"]).json()
    assert {each["id"] for each in listed} >= {shared["id"], own["id"]}
    others = server.ask("GET", ROOT, key=server.keys["viewer of other"]).json()
    assert own["id"] not in {each["id"] for each in others}

    def status(method: str, view: dict[str, object], key: str) -> int:
        return server.ask(method, f"{ROOT}/{view['id']}", key=server.keys[key]).status_code

    assert status("DELETE", shared, "editor of acme") == 403
    assert status("DELETE", own, "editor of other") == 404
    assert status("DELETE", own, "viewer of acme") == 403
    assert status("DELETE", own, "editor of acme") == status("DELETE", shared, "editor") == 204


def test_a_view_is_shared_by_its_link(server: Closed) -> None:
    """A view saved from the list stands above it for others, opens by its link, and a deleted one says so."""
    with signed_in(server, "editor") as visit, signed_in(server, "viewer") as other:
        text = visit.get("/traces?status=error&project=shop&before=0").text
        (save,) = re.findall(r'href="(/traces/views/new\?[^"]+)"', text)
        assert "before" not in save
        form = visit.get(unescape(save)).text
        assert 'value="project=shop&amp;status=error"' in form
        query = "project=shop&status=error"
        sent = visit.send("/traces/views/new", "/traces/views/new", name="shop fails", query=query)
        link = sent.headers["location"]
        assert re.fullmatch(r"/traces\?view=[0-9a-f]{32}", link)
        assert other.get(link).headers["location"] == "/traces?project=shop&status=error"
        shown = other.get("/traces?project=shop&status=error").text
        assert f'href="{link}" aria-current="true"><bdi>shop fails' in shown
        assert "/traces/views/new" not in shown
        elsewhere = other.get("/traces?project=other&status=error").text
        assert "shop fails" not in elsewhere
        place = f"/traces/views/{link.partition('=')[2]}"
        listed = other.get("/traces/views").text
        assert ("shop fails" in listed, f"{place}/edit" in listed) == (True, False)
        assert other.get(f"{place}/edit").status_code == 403
        assert "project shop, status error" in visit.get("/traces/views").text
        changed = visit.send(f"{place}/edit", f"{place}/edit", name="shop is slow", query="project=shop&sort=duration")
        assert changed.status_code == 303
        assert other.get(link).headers["location"] == "/traces?project=shop&sort=duration"
        html = visit.get(f"{place}/delete").text
        assert "shop is slow" in html
        assert visit.send(f"{place}/delete", f"{place}/delete").status_code == 303
        assert other.get(link).status_code == 404
    entries = until(
        lambda: server.ask("GET", f"/api/v1/audit?path={place}", key=server.keys["admin"]).json()["content"],
        lambda rows: len(rows) >= 2,
    )
    assert {(each["path"], each["keyName"]) for each in entries} >= {
        (f"{place}/edit", "editor"),
        (f"{place}/delete", "editor"),
    }


def test_what_is_wrong_with_a_view_stands_beside_its_field(server: Closed) -> None:
    """The form comes back with the typed values, also if another user had changed the view."""
    made(server, "taken")
    with signed_in(server, "editor") as visit:
        page = "/traces/views/new"
        for fields, status, wrong in (
            ({"name": "", "query": ""}, 400, "name"),
            ({"name": "x", "query": "colour=blue"}, 400, "query"),
            ({"name": "taken", "query": ""}, 409, "name"),
        ):
            answer = visit.send(page, page, **fields)
            assert (answer.status_code, f'id="f-{wrong}-wrong"' in answer.text) == (status, True), fields
        view = made(server, "mine")
        place = f"/traces/views/{view['id']}/edit"
        server.ask("PUT", f"{ROOT}/{view['id']}", key=server.keys["editor"], json={"name": "changed"})
        stale = visit.send(place, place, name="mine again", query="", version="1")
        assert (stale.status_code, "was changed while you edited it" in stale.text) == (409, True)


@pytest.mark.parametrize(
    "query", ["since=1d", "status=bad", "verdict=no", "duration=long", "cost=-1", "from=yesterday", "attribute=plan"]
)
def test_a_view_that_the_page_would_not_show_is_refused(server: Closed, query: str) -> None:
    """API and form refuse a view with the words in which the list refuses its filter, and nothing is saved."""
    name, fields = query.partition("=")[0], {"name": f"never {query}", "query": query}
    sent = server.ask("POST", ROOT, key=server.keys["editor"], json=fields)
    assert (sent.status_code, f"{name}: " in sent.text) == (400, True)
    with signed_in(server, "editor") as visit:
        page = visit.get(f"/traces?{query}")
        assert (page.status_code, f"{name}: " in page.text) == (400, True)
        form = visit.send("/traces/views/new", "/traces/views/new", **fields)
        assert (form.status_code, f"{name}: " in form.text, f'value="{query}"' in form.text) == (400, True, True)
    assert fields["name"] not in {each["name"] for each in server.ask("GET", ROOT, key=server.keys["editor"]).json()}


def test_a_tenant_has_only_so_many_views(server: Closed) -> None:
    """One more than there may be is refused, and another tenant is not kept from its own."""
    before = len(server.ask("GET", ROOT, key=server.keys["editor of other"]).json())
    for number in range(MOST_VIEWS):
        body = {"name": f"view {number}"}
        answer = server.ask("POST", ROOT, key=server.keys["editor of other"], json=body)
        if answer.status_code == 409:
            break
    shared = len(server.ask("GET", ROOT, key=server.keys["editor"]).json())
    views = server.ask("GET", ROOT, key=server.keys["editor of other"]).json()
    own = [each for each in views if each["tenant"] == "other"]
    assert (len(own), before < MOST_VIEWS, shared > 0) == (MOST_VIEWS, True, True)
    one_more = server.ask("POST", ROOT, key=server.keys["editor of other"], json={"name": "one more"})
    assert one_more.status_code == 409
    assert made(server, "of acme", key="editor of acme")["tenant"] == "acme"
