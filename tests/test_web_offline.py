"""Datasets, experiments and runs on pages: found, compared, promoted by hand, harmless, and whose they are."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.access import a_closed_server
from tests.browser import a_page
from tests.offline import Offline
from tests.paging import Shown, Visit, a_dataset, a_run, a_shown_server, an_experiment, an_item, asking

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("offline", "traces")

HOSTILE = "<script>document.title='owned'</script><img src=https://evil.example/x onerror=alert(1)>\u202evil</pre>"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with a dataset, an experiment of three runs, and a hostile one."""
    with a_shown_server(tmp_path_factory.mktemp("offline") / "data") as server:
        a_run(server)
        yield server


@pytest.fixture(name="api")
def its_api(shown: Shown) -> Iterator[Offline]:
    """Yield its API."""
    with asking(shown) as api:
        yield api


@pytest.fixture(name="visit")
def a_visitor(shown: Shown) -> Iterator[Visit]:
    """Visit the pages."""
    with Visit(shown.origin) as visit:
        yield visit


def cases_on(page: str) -> list[str]:
    """Return the keys of the items that a page lists."""
    return re.findall(r'data-open href="[^"]*item=[^"]*"[^>]*><bdi>([^<]*)</bdi>', page)


def test_a_version_shows_what_it_changed(shown: Shown, visit: Visit) -> None:
    """Added, removed and changed items are marked, a changed one with only its differing part before and after."""
    page = visit.get(f"{a_dataset(shown)}/diff").text
    matches = re.findall(r'<span class="badge \w+">(added|removed|changed)</span> <bdi>(\w+)</bdi>', page)
    assert sorted(matches) == [("added", "new"), ("changed", "refund"), ("removed", "gone")]
    assert "Within 30 days" in page
    assert "Within 14 days" in page
    assert "usd" not in page
    first = a_dataset(shown).replace("/versions/2", "/versions/1")
    assert "Nothing to compare" in visit.get(f"{first}/diff").text
    assert "version 2, " in visit.get(f"{first}/diff").text


def test_items_of_a_run_are_filtered_and_sorted(shown: Shown, visit: Visit) -> None:
    """By outcome, evaluator and text, and the lowest score first; the address holds it all."""
    run = f"/runs/{a_run(shown)}"
    assert cases_on(visit.get(run).text) == ["refund", "price", "new", "odd"]
    for query, expected in (
        ("outcome=error", ["new"]),
        ("outcome=not_evaluated", ["odd"]),
        ("evaluator=exact", ["refund"]),
        ("text=RETURN", ["refund"]),
        ("sort=score", ["refund", "price", "new", "odd"]),
        ("sort=latency&outcome=passed", ["price"]),
        ("text=nowhere", []),
    ):
        assert cases_on(visit.get(f"{run}?{query}").text) == expected, query
    assert visit.get(f"{run}?sort=colour").status_code == 400
    assert visit.get(f"{run}?item=999999").status_code == 404


def test_an_item_stands_beside_what_was_expected(shown: Shown, visit: Visit) -> None:
    """The chosen item shows expectation, output, reason, its trace and its case in the dataset."""
    run = a_run(shown)
    item = an_item(shown).rpartition("/")[2]
    page = visit.get(f"/runs/{run}?item={item}").text
    for text in ("Within 14 days", "Within 60 days", "It says 60 days, and 14 are expected."):
        assert text in page
    assert f'href="/traces/{shown.trace_id}' in page
    assert "/versions/2?item=refund" in page
    assert visit.get(f"/runs/{run}/items/{item}/text?of=actual_outputs").text == '{"output":"Within 60 days"}'
    assert visit.get(f"/runs/{run}/items/{item}/text?of=digest").status_code == 404
    assert visit.get(f"/runs/{run}/export?format=junit").text.startswith("<?xml")


def test_a_run_is_pinned_on_its_page(shown: Shown, visit: Visit) -> None:
    """The button keeps it does not expire, and then says how to let it go."""
    place = f"/runs/{a_run(shown)}"
    assert "<button>Pin</button>" in visit.get(place).text
    assert visit.send(place, f"{place}/pin", keep="1").status_code == 303
    page = visit.get(place).text
    assert ("<button>Unpin</button>" in page, "does not expire" in page) == (True, True)
    assert visit.send(place, f"{place}/pin", keep="0").status_code == 303
    assert "<button>Pin</button>" in visit.get(place).text


def test_an_experiment_shows_how_its_runs_went(shown: Shown, visit: Visit) -> None:
    """Its trend leads to each run, and the list of experiments to the latest one."""
    page = visit.get(an_experiment(shown)).text
    assert len(set(re.findall(r'<a href="(/runs/[^"/]+)"', page))) == 3
    assert "Mean score of each run" in page
    listed = visit.get("/experiments?project=shop").text
    assert f"/runs/{a_run(shown)}" in listed
    assert f"/runs/{a_run(shown)}" not in visit.get("/experiments?project=other").text


def test_scores_of_another_evaluator_begin_another_line(visit: Visit, api: Offline) -> None:
    """If the fingerprint changes between runs, the line of the means stops, and a mark says why."""
    run = ""
    for print_ in ("1111111111", "1111111111", "2222222222"):
        run = api.begin(experimentName="changed")
        score = {"name": "exact", "score": 1.0, "fingerprint": print_}
        api.report(run, {"itemKey": "a", "evalResults": [score]})
        api.end(run)
    page = visit.get(f"/experiments/{api.ask('GET', f'runs/{run}')['experimentId']}").text
    assert "evaluator 22222222" in page
    assert "evaluator 11111111" not in page


def test_a_trace_becomes_a_case_by_hand(shown: Shown, visit: Visit, api: Offline) -> None:
    """The form makes the dataset, and the item has the expectation that was typed; again with another it is changed."""
    place = f"/traces/{shown.trace_id}/promote"
    assert place in visit.get(f"/traces/{shown.trace_id}").text
    assert "May not" not in visit.get(place).text
    wrong = visit.send(place, place, dataset="", name="a/b", expectation="none")
    assert (wrong.status_code, 'aria-invalid="true"' in wrong.text) == (400, True)
    made = visit.send(place, place, dataset="", name="by hand", expectation="other", expected="It rains.")
    assert made.status_code == 303, made.text
    target = made.headers["location"]
    assert "It rains." in visit.get(target).text
    again = visit.send(place, place, dataset=target.split("/")[2], expectation="other", expected='{"answer": 1}')
    assert again.headers["location"].split("?")[0].endswith("/versions/2")
    (item,) = api.items("by hand")
    assert (item["expectedOutputs"], item["source"]["traceId"]) == ({"answer": 1}, shown.trace_id)
    same = visit.send(place, place, dataset=target.split("/")[2], expectation="none")
    assert same.headers["location"].split("?")[0].endswith("/versions/2")


def test_an_item_of_a_run_is_corrected_by_hand(shown: Shown, visit: Visit, api: Offline) -> None:
    """In the dataset of the run, the item gets the actual output as its expectation."""
    place = f"{an_item(shown)}/promote"
    dataset = a_dataset(shown).split("/")[2]
    assert f'value="{dataset}" selected' in visit.get(place).text
    made = visit.send(place, place, dataset=dataset, expectation="output")
    assert made.headers["location"] == f"/datasets/{dataset}/versions/3?item=refund"
    changed = {item["id"]: item["expectedOutputs"] for item in api.items()}
    assert changed["refund"] == {"output": "Within 60 days"}


def test_datasets_are_made_and_deleted(visit: Visit) -> None:
    """A name is taken once, and what cannot be undone is asked about first."""
    made = visit.send("/datasets/new", "/datasets/new", name="short lived", description="d", tags="a, b")
    place = made.headers["location"]
    assert visit.send("/datasets/new", "/datasets/new", name="short lived").status_code == 409
    assert "No version yet" in visit.get(place).text
    assert f'action="{place}/delete"' in visit.get(f"{place}/delete").text
    assert visit.send(f"{place}/delete", f"{place}/delete").headers["location"] == "/datasets"
    assert visit.get(place).status_code == 404


def test_hostile_items_do_nothing(shown: Shown, visit: Visit, api: Offline, browser: "Browser") -> None:
    """Whatever names, items, reasons and errors hold, no page runs it, asks another host, or grows wider."""
    name = "evil <b>"
    api.dataset(name=name, description=HOSTILE, tags=[HOSTILE[:90]])
    api.version({"inputs": {HOSTILE: HOSTILE * 200}, "metadata": {HOSTILE: HOSTILE}}, name=name, description=HOSTILE)
    run = api.begin(
        experimentName=HOSTILE[:190],
        name=HOSTILE[:150],
        description=f"About {HOSTILE}",
        gitBranch=HOSTILE[:150],
        metadata={HOSTILE: HOSTILE},
    )
    score = {"name": HOSTILE[:150], "score": 0.1, "reason": HOSTILE, "label": HOSTILE, "judgeModel": HOSTILE[:150]}
    item = {"itemKey": HOSTILE[:150], "inputs": {"input": HOSTILE}, "actualOutputs": {HOSTILE: HOSTILE}}
    api.report(run, item | {"evalResults": [score], "error": HOSTILE, "errorKind": HOSTILE[:150]})
    api.end(run)
    (number,) = (each["id"] for each in api.ask("GET", f"runs/{run}")["items"]["content"])
    dataset = next(each for each in api.ask("GET", "datasets") if each["name"] == name)
    experiment = api.ask("GET", f"runs/{run}")["experimentId"]
    paths = ["/datasets", "/experiments", f"/experiments/{experiment}", f"/runs/{run}", f"/datasets/{dataset['id']}"]
    paths += [f"/datasets/{dataset['id']}/versions/1", f"/runs/{run}/items/{number}/promote"]
    with a_page(browser, shown.origin, viewport={"width": 390, "height": 844}) as watch:
        for path in paths:
            watch.open(path)
            assert "owned" not in watch.page.title().split(" · ")[0] or "<script>" in watch.page.title()
            assert watch.sideways() <= 0, path
    for path in paths[2:4]:
        assert "About &lt;" in visit.get(path).text, path


def test_pages_show_what_is_the_tenants(tmp_path_factory: pytest.TempPathFactory) -> None:
    """A key sees its tenant's datasets and runs and the shared ones; of another tenant neither lists nor addresses."""
    with a_closed_server(tmp_path_factory.mktemp("tenants") / "data") as closed:
        made = closed.ask("POST", "/api/v1/datasets", key=closed.keys["editor of acme"], json={"name": "theirs"}).json()
        begun = closed.ask(
            "POST", "/api/v1/projects/p/runs", key=closed.keys["editor of acme"], json={"experimentName": "e"}
        ).json()
        for key, sees in (("viewer of acme", True), ("viewer", True)):
            assert ("theirs" in closed.ask("GET", "/datasets", key=closed.keys[key]).text) is sees
        shared = closed.ask("POST", "/api/v1/datasets", key=closed.keys["editor"], json={"name": "shared"}).json()
        own = closed.keys["editor of acme"]
        assert closed.ask("GET", f"/datasets/{shared['id']}", key=own).status_code == 200
        assert closed.ask("GET", f"/datasets/{shared['id']}/delete", key=own).status_code == 403
        assert closed.ask("POST", f"/datasets/{shared['id']}/delete", key=own).status_code == 403
        assert closed.ask("GET", f"/runs/{begun['runId']}", key=own).status_code == 200
        assert made["tenant"] == "acme"
