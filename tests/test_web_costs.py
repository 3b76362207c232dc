"""The page of costs: by model and day, and by user."""

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from storage.query.costs import CostsAt
from tests.browser import DESK, PHONE, a_page
from tests.paging import Shown, Visit, a_shown_server
from tests.serving import an_export, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser

DAY_NS = 86_400 * 10**9
HOSTILE = "<b>m</b> & \"'"
CALLS = (  # model, days ago, USD, user
    ("dear", 0, 3.0, "ann"),
    ("dear", 1, 1.0, "bob"),
    (HOSTILE, 1, 2.0, "bob"),
    *((f"small {number}", 1, 0.01, "ann") for number in range(8)),
    ("dear", 40, 500.0, "old"),
)


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield a server with a call for each row of `CALLS`, in a project of its own."""
    with a_shown_server(tmp_path_factory.mktemp("costs") / "data") as server:
        for number, (model, days, usd, user) in enumerate(CALLS):
            export = an_export(f"{number + 1:032x}", "chat", project="costly")
            for span in export.resource_spans[0].scope_spans[0].spans:
                span.start_time_unix_nano = time.time_ns() - days * DAY_NS
                span.end_time_unix_nano = span.start_time_unix_nano + 1000
                for key, value in (
                    ("gen_ai.operation.name", "chat"),
                    ("gen_ai.request.model", model),
                    ("user.id", user),
                ):
                    span.attributes.add(key=key).value.string_value = value
                span.attributes.add(key="gen_ai.usage.cost").value.double_value = usd
            post(f"http://{server.running.otlp_http}/v1/traces", export.SerializeToString())
        server.running.store.wait_committed(30)
        server.running.traces.wait_idle(30)
        yield server


def table(page: str, label: str) -> list[list[str]]:
    """Return the cells of a table, as text."""
    body = page.partition(f'aria-label="{label}"')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [
        [re.sub(r"<br>.*|<[^>]*>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", row)] for row in rows
    ]


def test_costs_by_model_day_and_user(shown: Shown) -> None:
    """The models with the highest cost have columns, further ones share one; sums are those of the calls."""
    with Visit(shown.origin) as visit:
        page = visit.get("/costs?project=costly").text
        month = visit.get("/costs?project=costly&days=30").text
    head, today, yesterday, *_, total = table(page, "Cost by model and day")
    assert head == [
        "Day (UTC)",
        "dear",
        "&lt;b&gt;m&lt;/b&gt; &amp; &#34;&#39;",
        *(f"small {n}" for n in range(4)),
        "Other models",
        "All",
    ]
    assert today[1:] == ["$3.00", *["-"] * 6, "$3.00"]
    assert yesterday[1:3] + yesterday[-2:] == ["$1.00", "$2.00", "$0.040", "$3.08"]
    assert (total[0], total[1], total[-1]) == ("All days", "$4.00", "$6.08")
    assert [row[0] for row in table(page, "Cost by user")[1:]] == ["ann", "bob"]
    assert len(table(month, "Cost by model and day")) == 32
    assert "500" not in month


@pytest.mark.pages("traces")
def test_a_cost_leads_to_its_traces(shown: Shown, browser: "Browser") -> None:
    """A number opens the list of the traces it is of, dearest first, and the page is reached from Home."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/?project=costly")
        watch.page.get_by_role("link", name="By model, day and user").click()
        watch.page.get_by_role("region", name="Cost by user").get_by_role("link", name="bob").click()
        watch.page.wait_for_url("**/traces?*user=bob*")
        assert watch.page.locator("#traces tbody tr").count() == 2
        watch.page.go_back()
        watch.page.get_by_role("link", name="$1.00").click()
        watch.page.wait_for_url("**/traces?*model=dear*")
        assert watch.page.locator("#traces tbody tr").count() == 1


@pytest.mark.pages("traces")
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_page_has_no_violations(shown: Shown, browser: "Browser", size: dict[str, int], scheme: str) -> None:
    """Axe finds nothing, and nothing is wider than the screen."""
    with a_page(browser, shown.origin, viewport=size, color_scheme=scheme) as watch:
        watch.open("/costs?project=costly&days=30")
        assert watch.scan() == []
        assert watch.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_tenant_sees_its_own_costs_and_those_of_none(shown: Shown) -> None:
    """Neither models nor users have calls of another tenant."""
    store, until_ns = shown.running.store, time.time_ns() + DAY_NS
    dear = tuple(f"{number + 1:032x}" for number in range(2))
    with store._database.transaction() as cursor:
        for table in ("span", "trace_part", "trace_reading"):
            cursor.execute(f"UPDATE {table} SET tenant = 'acme' WHERE trace_id IN {dear}")
    seen = {}
    for tenant in ("acme", "other", None):
        at = CostsAt(from_ns=until_ns - 7 * DAY_NS, until_ns=until_ns, project="costly", tenant=tenant)
        costs = store.costs.of(at)
        seen[tenant] = ("dear" in costs.models, "ann" in {each.user_id for each in costs.users if each.traces > 8})
    assert seen == {"acme": (True, True), "other": (False, False), None: (True, True)}
