"""Two people who edit the same rule, connection or webhook: the second to save is told, whichever it is."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING, Any, Final

import pytest

from collector.app import Running
from collector.delivery.receivers import RequestedWebhook
from tests.browser import DESK, PHONE, a_page
from tests.connecting import ENCRYPTION_KEY
from tests.live import a_client
from tests.paging import Visit, token_on, version_on
from tests.serving import a_server

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FIRST, SECOND = "http://127.0.0.1:9/first", "http://127.0.0.1:9/second"
SECRET = "hush-0123456789"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """A kind of object with a form: its address, the fields of the form, and the field that two people change."""

    make: Callable[[Running], str]  # its page
    field: str
    sends: Mapping[str, str]
    holds: Callable[[Running, str], str]  # what the field is, of the thing with this page

    def saying(self, place: str, text: str) -> dict[str, str]:
        """Return the fields of the form of the object on this page, with this text typed in."""
        return {"name": f"edited {place}"} | dict(self.sends) | {self.field: text}


def _rule(running: Running) -> str:
    with a_client() as client:
        path = f"http://{running.http}/api/v1/projects/shop/trace-eval-rules"
        name = f"rule {len(running.context.rules.kept())}"
        made = client.post(
            path, json={"name": name, "evaluator": "regex", "config": {"pattern": "."}}
        ).raise_for_status()
    return f"/rules/{made.json()['id']}"


def _connection(running: Running) -> str:
    connections = running.context.judging.connections
    document = {"name": f"judge {len(connections.all())}", "baseUrl": "http://127.0.0.1:9/v1", "model": "m"}
    return f"/connections/{connections.create(document | {'apiKey': 'sk-0123456789'}).connection_id}"


def _webhook(running: Running) -> str:
    requested = RequestedWebhook(url="http://127.0.0.1:9/hook", secret=SECRET)
    return f"/webhooks/{running.context.receivers.create(None, requested).webhook_id}"


def _url(running: Running, place: str) -> str:
    (stored,) = [each for each in running.context.receivers.all() if each.webhook_id in place]
    return stored.url


EDITED: Final = {
    "rule": Edited(
        make=_rule,
        field="config.pattern",
        sends={
            "do": "save",
            "as": "form",
            "target": "SPAN",
            "project": "shop",
            "enabled": "1",
            "evaluator": "regex",
            "shown": "regex",
        },
        holds=lambda running, place: str(
            running.context.rules.find("shop", place.rpartition("/")[2]).active.rule.configuration.get("pattern", "")
        ),
    ),
    "connection": Edited(
        make=_connection,
        field="baseUrl",
        sends={"model": "m", "protocol": "RESPONSES", "removeKey": "on"},
        holds=lambda running, place: running.context.judging.connections.get(place.rpartition("/")[2]).text.base_url,
    ),
    "webhook": Edited(
        make=_webhook,
        field="url",
        sends={"template": "json", "events": "alert.opened", "enabled": "on"},
        holds=_url,
    ),
}
KINDS = pytest.mark.parametrize("kind", EDITED)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Start one server for all tests."""
    settings = {"encryption_key": ENCRYPTION_KEY, "webhook_private_hosts": ("127.0.0.1",)}
    with a_server(tmp_path_factory.mktemp("overtaken") / "data", **settings) as running:
        yield running


@pytest.fixture
def visit(running: Running) -> Iterator[Visit]:
    """Visit the pages as a user with all permissions."""
    with Visit(f"http://{running.http}") as visit:
        yield visit


def table_of(page: str) -> dict[str, tuple[str, str]]:
    """Return the differences that a page shows: typed and stored value, by field."""
    part = page.partition('<section class="card overtaken"')[2].partition("</section>")[0]
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in part.split("<tr>")[2:]]
    cells = [[unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in row] for row in rows]
    return {name: (typed, now) for name, typed, now in cells}


@KINDS
def test_the_second_of_two_is_told_and_may_save_again(running: Running, visit: Visit, kind: str) -> None:
    """The second form is refused with its values beside the current ones, and saved if sent again from that page."""
    edited = EDITED[kind]
    place = edited.make(running)
    edit = f"{place}/edit"
    seen_by_both = version_on(visit.get(edit).text)
    assert seen_by_both == {"version": "1"}
    assert visit.send(edit, edit, **edited.saying(place, FIRST)).status_code == 303
    refused = visit.send(edit, edit, **(edited.saying(place, SECOND) | seen_by_both))
    assert (refused.status_code, edited.holds(running, place)) == (409, FIRST)
    assert f"This {kind} was changed while you edited it" in refused.text
    assert (SECOND, FIRST) in table_of(refused.text).values()
    assert len(table_of(refused.text)) == 1  # values that both typed alike are not listed
    assert f'value="{SECOND}"' in refused.text
    again = {"csrf": token_on(refused.text)} | version_on(refused.text)
    assert visit.client.post(visit.origin + edit, data=edited.saying(place, SECOND) | again).status_code == 303
    assert edited.holds(running, place) == SECOND


@KINDS
@pytest.mark.parametrize("version", ["", "²", "-1", "1.0", "9" * 5_000, "2"])
def test_a_form_that_saw_no_version_saves_nothing(running: Running, visit: Visit, kind: str, version: str) -> None:
    """Without the number of the version that is there, nothing is overwritten."""
    edited = EDITED[kind]
    place = edited.make(running)
    before = edited.holds(running, place)
    answer = visit.send(f"{place}/edit", f"{place}/edit", **(edited.saying(place, SECOND) | {"version": version}))
    assert (answer.status_code, edited.holds(running, place)) == (409, before)


@KINDS
def test_what_is_wrong_first_does_not_hide_that_it_was_changed(running: Running, visit: Visit, kind: str) -> None:
    """A form that comes back with a fault still knows which version it saw."""
    edited = EDITED[kind]
    place = edited.make(running)
    edit = f"{place}/edit"
    seen = version_on(visit.get(edit).text)
    wrong = visit.send(edit, edit, **edited.saying(place, "("))
    assert (wrong.status_code, version_on(wrong.text)) == (400, seen)
    assert visit.send(edit, edit, **edited.saying(place, FIRST)).status_code == 303
    token = {"csrf": token_on(wrong.text)} | version_on(wrong.text)
    assert visit.client.post(visit.origin + edit, data=edited.saying(place, SECOND) | token).status_code == 409


def test_secrets_that_were_typed_are_not_shown(running: Running, visit: Visit) -> None:
    """Of a key, a secret and an address that is one it says that they are to be typed again, or are new."""
    url = "https://hooks.slack.com/services/T0/B0/hush"
    for kind, name, typed in (
        ("connection", "API key", {"apiKey": SECRET, "removeKey": ""}),
        ("webhook", "Secret", {"secret": SECRET, "template": "slack", "url": url}),
    ):
        edited = EDITED[kind]
        place = edited.make(running)
        edit = f"{place}/edit"
        sent = edited.saying(place, SECOND) | typed | {"version": "0"}
        page = visit.send(edit, edit, **sent).text
        assert (SECRET in page, table_of(page)[name]) == (
            False,
            ("a new one, which must be entered again", "stored, encrypted"),
        )
        assert kind == "connection" or table_of(page)["URL"][0] == "a new URL"


def test_what_is_left_alone_is_no_difference(running: Running, visit: Visit) -> None:
    """A form whose values equal the current ones is reported as no difference."""
    place = _webhook(running)
    sent = {"template": "json", "url": "http://127.0.0.1:9/hook", "enabled": "on", "version": "0"}
    token = token_on(visit.get(f"{place}/edit").text)
    events = ["alert.opened", "alert.escalated", "alert.acknowledged", "alert.recovered", "RUN_REGRESSION"]
    page = visit.client.post(f"{visit.origin}{place}/edit", data=sent | {"csrf": token, "events": events}).text
    assert "The stored values equal yours" in page


@KINDS
@pytest.mark.parametrize(
    "looks",
    [
        {"viewport": DESK, "java_script_enabled": False},
        {"viewport": PHONE},
        {"viewport": PHONE, "color_scheme": "dark"},
    ],
    ids=["without scripts", "phone", "dark"],
)
def test_two_browsers_meet(running: Running, browser: "Browser", kind: str, looks: dict[str, Any]) -> None:
    """What the second one sees can be used by everybody, fits a phone, and lets him save without scripts."""
    edited = EDITED[kind]
    place, origin = edited.make(running), f"http://{running.http}"
    has_scripts = looks.get("java_script_enabled", True)
    with a_page(browser, origin) as one, a_page(browser, origin, **looks) as two:
        for watch, text in ((one, FIRST), (two, SECOND)):
            watch.open(f"{place}/edit")
            _type(watch.page, edited, text)
        one.page.get_by_role("button", name="Save").click()
        one.page.wait_for_url(f"**{place}")
        two.page.get_by_role("button", name="Save").click()
        two.page.get_by_role("heading", name="was changed while you edited it").wait_for()
        assert ([] if not has_scripts else two.scan(), two.sideways() <= 0) == ([], True)
        assert two.page.locator(f"[name='{edited.field}']").input_value() == SECOND
        _type(two.page, edited, SECOND)  # a key is not in the form any more
        two.page.get_by_role("button", name="Save").click()
        two.page.wait_for_url(f"**{place}")
        two.problems[:] = [each for each in two.problems if "409" not in each]  # the browser reports the 409 too
    assert edited.holds(running, place) == SECOND


def _type(page: "Page", edited: Edited, text: str) -> None:
    page.fill(f"[name='{edited.field}']", text)
    if page.locator("[name=apiKey]").count():
        page.fill("[name=apiKey]", "sk-again-0123456789")
