"""Access to pages, sign-in, and the requirements of forms."""

import itertools
import time
from collections.abc import Iterator

import httpx
import pytest

from collector.web.operations.signing_in import own_path
from collector.web.sign_in_sessions import LIFE_S, MAX_PER_KEY, MAX_SESSIONS, Sessions
from tests.access import WRONG_KEY, Closed, a_closed_server, request
from tests.paging import Visit, token_on
from tests.serving import a_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield one server with keys for all."""
    with a_closed_server(tmp_path_factory.mktemp("site") / "data") as closed:
        yield closed


@pytest.fixture
def visit(server: Closed) -> Iterator[Visit]:
    """Yield a browser that was never here."""
    with Visit(f"http://{server.running.http}") as visit:
        yield visit


def sign_in(visit: Visit, key: str, target: str = "/traces") -> httpx.Response:
    """Fill in the form."""
    return visit.send("/sign-in", "/sign-in", key=key, next=target)


def test_who_is_unknown_is_sent_to_sign_in_and_back(server: Closed, visit: Visit) -> None:
    """A browser without a session comes to the form, and after a good key to the page that it had asked for."""
    answer = visit.get("/traces?project=shop")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Ftraces%3Fproject%3Dshop")
    answer = sign_in(visit, server.keys["viewer"], "/traces?project=shop")
    assert (answer.status_code, answer.headers["location"]) == (303, "/traces?project=shop")
    assert visit.get("/traces?project=shop").is_success


def test_programs_are_told_401_and_not_sent_elsewhere(visit: Visit) -> None:
    """A client that does not ask for HTML gets the status."""
    assert visit.get("/traces", accept="*/*").status_code == 401


def test_the_cookie_is_kept_from_scripts_and_opens_pages_only(server: Closed, visit: Visit) -> None:
    """The session's cookie is HttpOnly and SameSite, has an end, and the API does not know it."""
    cookie = sign_in(visit, server.keys["admin"]).headers["set-cookie"].lower()
    assert {"httponly", "samesite=lax", f"max-age={LIFE_S}", "path=/"} <= set(cookie.split("; "))
    assert visit.get("/traces").is_success
    assert visit.get("/api/v1/traces", accept="*/*").status_code == 401
    assert visit.client.post(f"{visit.origin}/api/v1/sql", json={"sql": "SELECT 1"}).status_code == 401


def test_signing_in_makes_another_cookie(server: Closed, visit: Visit) -> None:
    """A number that was put into the browser before is worth nothing after."""
    visit.get("/sign-in")
    before = visit.client.cookies["tracejury"]
    sign_in(visit, server.keys["viewer"])
    assert visit.client.cookies["tracejury"] != before


def test_a_wrong_key_says_so_and_too_many_have_to_wait(server: Closed) -> None:
    """The form is shown again with 401, wrong keys in forms and in headers are counted together, and then it is 429."""
    transport = httpx.HTTPTransport(local_address="127.0.9.9")
    with httpx.Client(transport=transport, base_url=f"http://{server.running.http}") as client:
        token = token_on(client.get("/sign-in").text)
        fields = {"csrf": token, "key": WRONG_KEY}
        first = client.post("/sign-in", data=fields)
        assert (first.status_code, "Invalid or missing API key" in first.text) == (401, True)
        for number in range(9):
            client.get("/api/v1/traces", headers={"authorization": f"Bearer {WRONG_KEY}{number}"})
        assert client.post("/sign-in", data=fields | {"key": f"{WRONG_KEY}!"}).status_code == 429


def test_a_key_that_only_sends_has_no_pages(server: Closed, visit: Visit) -> None:
    """The form says what such a key is for."""
    answer = sign_in(visit, server.keys["ingest"])
    assert (answer.status_code, "can only send spans" in answer.text) == (403, True)


def test_signing_out_ends_the_session_for_every_copy_of_the_cookie(server: Closed, visit: Visit) -> None:
    """A kept copy of the cookie opens nothing afterwards."""
    sign_in(visit, server.keys["viewer"])
    kept = visit.client.cookies["tracejury"]
    assert visit.send("/traces", "/sign-out").status_code == 303
    answer = httpx.get(f"{visit.origin}/traces", headers={"cookie": f"tracejury={kept}", "accept": "text/html"})
    assert answer.status_code == 303


def test_a_session_ends_with_its_key(server: Closed, visit: Visit) -> None:
    """Disabling a key ends what began with it, and so does its time."""
    ends = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
    fields = {"name": "passing", "role": "VIEWER", "expiresAt": ends}
    made = server.ask("POST", "/api/v1/api-keys", key=server.keys["admin"], json=fields).json()
    sign_in(visit, made["key"])
    assert visit.get("/traces").is_success
    server.ask("POST", f"/api/v1/api-keys/{made['id']}/disable", key=server.keys["admin"])
    assert visit.get("/traces").status_code == 303


def test_forms_need_their_token(server: Closed, visit: Visit) -> None:
    """Without it, with another one, and with that of another browser nothing is done."""
    sign_in(visit, server.keys["viewer"])
    with Visit(visit.origin) as other:
        tokens = ["", "0" * 64, token_on(other.get("/sign-in").text)]
    for token in tokens:
        answer = visit.client.post(f"{visit.origin}/sign-out", data={"csrf": token})
        assert (answer.status_code, "text/html" in answer.headers["content-type"]) == (403, True)
    assert visit.get("/traces").is_success


def test_what_is_no_form_is_not_taken(visit: Visit) -> None:
    """JSON, which a page of another origin could not send unasked either, is 415, and a flood of fields 400."""
    assert visit.client.post(f"{visit.origin}/sign-out", json={"csrf": "x"}).status_code == 415
    flood = "&".join(f"a{number}=1" for number in range(500))
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert visit.client.post(f"{visit.origin}/sign-out", content=flood, headers=form).status_code == 400
    large = visit.client.post(f"{visit.origin}/sign-out", content="a=" + "x" * (9 << 20), headers=form)
    assert large.status_code == 413


def test_problems_are_pages(server: Closed, visit: Visit) -> None:
    """A 404 is a page for a browser and a problem document for programs, and reading needs no form."""
    sign_in(visit, server.keys["viewer"])
    answer = visit.get("/nothing")
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    program = request(f"{visit.origin}/nothing", key=server.keys["viewer"])
    assert program.headers["content-type"] == "application/problem+json"
    missing = visit.get("/api/v1/nothing")
    assert missing.headers["content-type"] == "application/problem+json"


def test_nobody_is_sent_elsewhere() -> None:
    """An address to go on to is one of ours, whatever it looks like."""
    assert own_path("/traces?project=a b") == "/traces?project=a b"
    for address in ("//evil.example", "/\\evil.example", "https://evil.example", "", "/\t/evil.example", "/\r\nx: y"):
        assert own_path(address) == "/"


def test_sessions_are_bounded() -> None:
    """Sessions expire, and are limited for each key and in all."""
    clock = itertools.count()
    sessions = Sessions(clock_s=lambda: float(next(clock)))
    first = sessions.begin(b"key")
    others = [sessions.begin(b"key") for _ in range(MAX_PER_KEY)]
    assert (sessions.key_of(first), sessions.key_of(others[-1])) == (None, b"key")
    for number in range(MAX_SESSIONS):
        sessions.begin(b"%d" % number)
    assert sessions.key_of(others[-1]) is None
    assert len(sessions._sessions) == MAX_SESSIONS
    now_s = [0.0]
    sessions = Sessions(clock_s=lambda: now_s[0])
    lasting = sessions.begin(b"key")
    now_s[0] = LIFE_S - 1.0
    assert sessions.key_of(lasting) == b"key"
    now_s[0] = float(LIFE_S)
    assert sessions.key_of(lasting) is None


def test_a_server_without_keys_needs_tokens_too(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Even if all callers may do everything, a page of another site cannot send a form."""
    with a_server(tmp_path_factory.mktemp("open") / "data") as running, Visit(f"http://{running.http}") as visit:
        assert visit.get("/traces").is_success
        assert visit.client.post(f"{visit.origin}/sign-out").status_code == 403
        assert visit.send("/traces", "/sign-out").status_code == 403  # no form there, hence no token


def test_open_reads_show_pages_without_signing_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With `reads: open` a page opens for everybody, and offers to sign in."""
    with a_closed_server(tmp_path_factory.mktemp("reads") / "data", reads="open") as server:
        with Visit(f"http://{server.running.http}") as visit:
            page = visit.get("/traces")
        assert (page.status_code, 'href="/sign-in"' in page.text) == (200, True)
