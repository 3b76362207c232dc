"""Baselines after an edit of the evaluator, from end to end: they are of what monitors compare."""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.live import ANY_PORTS, Live, a_live_server, until
from tests.model_server import ModelRequest, Says, Status, Step, a_model
from tests.serving import run as execute
from tests.storing import a_store
from tests.test_monitors_live import MONITOR, answers
from tests.traffic import Send, over_http
from tests.watching import rebuild, remembered
from tests.working import Book, in_force

pytestmark = pytest.mark.costly("collector/api", "collector/cli", "collector/live", "rules", "storage")

PATIENCE_S: Final = 100
_NUMBERS: Final = itertools.count(1)


@dataclass(slots=True)
class Shop:
    """A project with one rule, edited now and then, and an application that sends releases."""

    server: Live
    send: Send
    source: random.Random
    keys: dict[str, Any] = field(default_factory=dict)  # of the rule, beside its evaluator
    project: str = field(default_factory=lambda: f"shop-{next(_NUMBERS)}")
    rule_id: str = ""

    @property
    def rules(self) -> str:
        """Return the address of the rules of the project."""
        return f"{self.server.http}/api/v1/projects/{self.project}/trace-eval-rules"

    def save(self, characters: int = 0, **keys: Any) -> None:
        """Make the rule, or edit it; answers of up to `characters` characters pass."""
        evaluator = {"evaluator": "length", "config": {"maximumOutputLength": characters}} if characters else {}
        body = {"name": self.project, "monitor": MONITOR, **evaluator, **self.keys, **keys}
        if self.rule_id:
            answer = self.server.client.put(f"{self.rules}/{self.rule_id}", json=body)
            assert answer.status_code == 200, answer.text
        else:
            answer = self.server.client.post(self.rules, json=body)
            assert answer.status_code == 201, answer.text
            self.rule_id = answer.json()["id"]

    def come(self, count: int, rate: float, release: str, service: str = "web") -> None:
        """Send traces of a release that pass at this rate, and wait until monitors have looked at all."""
        expected = self.evaluated() + count
        body = answers(self.source, count, rate, release, project=self.project, service=service)
        assert self.send(body).kind == "taken"
        until(self.evaluated, lambda seen: seen == expected, within_s=PATIENCE_S)
        self.look()

    def count(self, condition: str = "true") -> int:
        """Count the results that are stored and meet a condition."""
        ((count,),) = self.server.sql(
            f"SELECT count(*) FROM evaluations WHERE project = '{self.project}' AND ({condition})"
        )
        assert isinstance(count, int)
        return count

    def evaluated(self) -> int:
        """Count the results that are stored."""
        return self.count()

    def look(self) -> None:
        """Wait until monitors have looked at everything that is stored."""
        left = "SELECT 1 FROM monitor_cursor, result_state WHERE number < last_number"
        until(lambda: self.server.sql(left), lambda rows: not rows, within_s=PATIENCE_S)

    def settle(self) -> None:
        """Wait until all jobs are done and the monitors are up to date."""
        until(lambda: self.server.sql("SELECT count(*) FROM job"), lambda rows: rows == [[0]], within_s=PATIENCE_S)
        self.look()

    def command(self, *words: str) -> str:
        """Run a command about the rule and wait for the results; return its output."""
        output = execute("rules", *words, "--server", self.server.http).output
        self.settle()
        return output

    def backfill(self) -> None:
        """Run the rule over everything that is stored."""
        assert "done," in self.command("backfill", self.project, "--from", "1h", "--follow")

    def baseline(self) -> str:
        """Judge a baseline."""
        return self.command("baseline", self.project, "--follow")

    def lacks(self) -> str | None:
        """Return the message of the rule about what its monitors lack."""
        message: str | None = self.server.client.get(f"{self.rules}/{self.rule_id}").json()["comparison"]
        return message

    def alerts(self, *, are_stored: bool = True) -> list[tuple[str, str]]:
        """Return the releases of alerts, newest first: of the baseline, and of the candidate.

        Their SQL counts both sides again, if all of their results are stored.
        """
        listed = self.server.client.get(f"{self.server.http}/api/v1/alerts").json()["content"]
        own = [each for each in listed if each["projectName"] == self.project]
        for alert in own if are_stored else ():
            sides = [[side, alert[side]["count"]] for side in ("baseline", "candidate")]
            assert [row[:2] for row in self.server.sql(alert["details"]["sql"])] == sides
        return [(each["baseline"]["release"], each["candidate"]["release"]) for each in own]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a server whose sessions come to rest at once."""
    at_once = {"TRACEJURY_SETTLE_AFTER_ROOT_SECONDS": 0.1}
    with a_live_server(tmp_path_factory.mktemp("baselines") / "data", flags=ANY_PORTS, env=at_once) as server:
        yield server


@pytest.fixture
def shop(server: Live, seed: int) -> Iterator[Shop]:
    """Yield a project with a rule."""
    with over_http(server) as send:
        shop = Shop(server, send, random.Random(seed))
        shop.save(20)
        yield shop


def test_results_of_a_backfill_count_toward_the_baseline(shop: Shop) -> None:
    """A backfill that came before the baseline hides no later fall, and nothing is judged twice."""
    shop.come(70, 0.8, "1")
    shop.save(21)
    shop.backfill()
    assert "0 of the 10 required results" in str(shop.lacks())
    assert "Until then, results of a backfill do not count" in str(shop.lacks())
    assert "done, 70 looked at, 70 matched" in shop.baseline()
    assert shop.lacks() is None
    assert (shop.count("round = 0"), shop.count("counted"), shop.count("NOT superseded")) == (140, 140, 140)
    shop.come(100, 0.32, "2")
    assert shop.alerts() == [("1", "2")]


def test_a_backfill_that_runs_takes_nothing_from_the_baseline(shop: Shop) -> None:
    """Whichever of the two decides first, each result counts once."""
    shop.come(70, 1.0, "1")
    shop.save(21)
    shop.server.client.post(f"{shop.rules}/{shop.rule_id}/backfills", json={"from": "2020-01-01T00:00:00Z"})
    shop.baseline()
    assert (shop.lacks(), shop.count("counted")) == (None, 140)
    shop.come(30, 0.3, "2")
    assert shop.alerts() == [("1", "2")]


def test_a_baseline_after_an_alert_is_of_the_last_good_release(shop: Shop) -> None:
    """Monitors compare with the release before the bad ones, so that release is judged again."""
    shop.come(100, 1.0, "1")
    shop.come(60, 0.3, "2")
    assert shop.alerts() == [("1", "2")]
    shop.come(20, 0.3, "3")
    shop.save(21)
    shop.come(20, 0.3, "4")
    assert "0 of the 10 required results" in str(shop.lacks())
    shop.baseline()
    assert (shop.lacks(), shop.count("release IN ('2', '3') AND occasion = 'baseline'")) == (None, 0)
    shop.come(20, 0.3, "4")
    assert shop.alerts() == [("1", "4"), ("1", "2")]


def test_a_baseline_reaches_back_over_releases_that_are_short(shop: Shop) -> None:
    """A release with too few results is joined by the previous one."""
    shop.come(100, 1.0, "1")
    shop.come(5, 1.0, "2")
    shop.save(21)
    shop.come(20, 0.3, "3")
    shop.baseline()
    assert shop.lacks() is None
    shop.come(20, 0.3, "3")
    assert shop.alerts() == [("1, 2", "3")]


def test_a_release_that_was_long_enough_is_compared_with_alone(shop: Shop) -> None:
    """The next evaluator keeps that a release had enough results, though it has none of it itself."""
    shop.come(100, 1.0, "1")
    shop.come(60, 1.0, "2")
    shop.save(21)
    shop.come(20, 0.3, "3")
    shop.baseline()
    assert (shop.lacks(), shop.count("release = '1' AND occasion = 'baseline'")) == (None, 0)
    shop.come(20, 0.3, "3")
    assert shop.alerts() == [("2", "3")]


@pytest.mark.parametrize(
    "before, edits, again, alert",
    [
        pytest.param(10, [40], 100, ("1, 2, 3, 4", "5"), id="raised with the evaluator"),
        pytest.param(40, [10], 50, ("4", "5"), id="lowered with the evaluator"),
        pytest.param(10, [10, 40], 100, ("1, 2, 3, 4", "5"), id="raised after the evaluator"),
    ],
)
def test_the_minimum_in_force_decides_which_releases_are_short(
    shop: Shop, before: int, edits: list[int], again: int, alert: tuple[str, str]
) -> None:
    """An edit that changes `minResults` with the evaluator, or after it, leaves no release out of the baseline."""
    shop.save(20, monitor={**MONITOR, "minResults": before})
    for release in ("1", "2", "3", "4"):
        shop.come(25, 0.96, release)
    for minimum in edits:
        shop.save(21, monitor={**MONITOR, "minResults": minimum})
        shop.baseline()
    assert (shop.lacks(), shop.count("occasion = 'baseline'")) == (None, again)
    shop.come(60, 0.45, "5")
    assert shop.alerts() == [alert]


def test_each_service_has_a_baseline_of_its_own(shop: Shop) -> None:
    """Releases that several services name alike are judged again for each, and the warning waits for all."""
    for service in ("web", "desk"):
        shop.come(40, 1.0, "1", service)
    shop.come(20, 1.0, "2", "desk")
    shop.save(21)
    assert "done, 100 looked at" in shop.baseline()
    assert shop.lacks() is None
    shop.come(30, 0.2, "2", "web")
    shop.come(30, 0.2, "3", "desk")
    assert shop.alerts() == [("2", "3"), ("1", "2")]


def test_each_project_of_a_shared_rule_has_a_baseline_of_its_own(shop: Shop) -> None:
    """Projects whose services and releases have the same names are not taken for one another."""
    other = Shop(shop.server, shop.send, shop.source)
    name = f"shared by {shop.project}"
    rules = f"{shop.server.http}/api/v1/projects/*/trace-eval-rules"
    rule = {"name": name, "evaluator": "length", "config": {"maximumOutputLength": 20}, "monitor": MONITOR}
    made = shop.server.client.post(rules, json=rule).json()
    shop.server.client.delete(f"{shop.rules}/{shop.rule_id}")
    shop.come(30, 1.0, "1")
    shop.come(30, 1.0, "2")
    other.come(30, 1.0, "2")
    rule["config"] = {"maximumOutputLength": 21}
    answer = shop.server.client.put(f"{rules}/{made['id']}", json=rule).json()
    assert "0 of the 10 required results" in answer["comparison"]
    shop.command("baseline", name, "--follow")
    assert shop.server.client.get(f"{rules}/{made['id']}").json()["comparison"] is None
    assert [each.count("occasion = 'baseline'") for each in (shop, other)] == [60, 30]
    other.come(30, 0.3, "3")
    assert (shop.alerts(), other.alerts()) == ([], [("2", "3")])
    shop.server.client.delete(f"{rules}/{made['id']}")


def test_releases_that_are_gone_leave_the_warning(shop: Shop) -> None:
    """Deleted traces cannot be judged again, so monitors lack a baseline until the next release."""
    shop.come(30, 1.0, "1")
    shop.come(30, 1.0, "2")
    shop.save(21)
    shop.come(12, 1.0, "3")
    deleted = shop.server.client.delete(f"{shop.server.http}/api/v1/traces", params={"project": shop.project})
    assert deleted.status_code in {200, 202}, deleted.text
    until(shop.evaluated, lambda count: count == 0)
    assert "has judged, or is judging, all results that are stored" in shop.baseline()
    assert "0 of the 10 required results" in str(shop.lacks())
    assert "Nothing is left to evaluate again" in str(shop.lacks())
    shop.come(3, 1.0, "3")
    shop.come(20, 0.2, "4")
    assert (shop.lacks(), shop.alerts(are_stored=False)) == (None, [("3", "4")])


def test_a_warning_recommends_no_baseline_that_is_refused(shop: Shop) -> None:
    """Of a release that had too few results nothing is left to judge; the warning says when it ends, and ends then."""
    page = f"{shop.server.http}/rules/{shop.rule_id}"
    shop.come(5, 1.0, "1")
    shop.come(12, 1.0, "2")
    shop.save(21)
    assert "evaluates the compared releases again" in str(shop.lacks())
    assert "Evaluate them again" in shop.server.client.get(page).text
    shop.baseline()
    assert "5 of the 10 required results" in str(shop.lacks())
    assert "Nothing is left to evaluate again" in str(shop.lacks())
    listed = execute("rules", "list", "--server", shop.server.http).output
    assert "Nothing is left to evaluate again" in listed
    assert f"rules baseline {shop.rule_id}" not in listed
    assert "Evaluate them again" not in shop.server.client.get(page).text
    shop.come(30, 0.2, "3")
    assert (shop.lacks(), shop.alerts()) == (None, [("2", "3")])


def test_another_edit_that_keeps_the_evaluator_judges_nothing_twice(shop: Shop) -> None:
    """What counts of the evaluator counts for each revision of the rule that has it."""
    shop.come(70, 1.0, "1")
    shop.save(21)
    shop.baseline()
    shop.save(21, sampleRate=0.99)
    message = shop.baseline()
    assert "has judged, or is judging, all results that are stored" in message
    assert (shop.lacks(), shop.count()) == (None, 140)


def test_an_edit_that_is_taken_back_compares_with_what_was_before_it(shop: Shop) -> None:
    """The evaluator knows the releases already, so nothing is lacking."""
    shop.come(40, 1.0, "1")
    shop.save(21)
    shop.come(5, 1.0, "1")
    assert shop.lacks() is not None
    shop.save(20)
    assert shop.lacks() is None
    shop.come(30, 0.3, "2")
    assert shop.alerts() == [("1", "2")]


def test_a_baseline_has_as_many_results_as_monitors_need(shop: Shop) -> None:
    """With more `minResults` than a baseline usually has, it has that many."""
    shop.keys = {"monitor": {**MONITOR, "minResults": 220}}
    shop.save(20)
    shop.come(230, 1.0, "1")
    shop.save(21)
    shop.baseline()
    assert (shop.lacks(), shop.count("occasion = 'baseline'")) == (None, 220)


def test_what_was_left_out_is_judged_by_another_baseline(shop: Shop) -> None:
    """A rule that is disabled judges nothing, which does not end the warning for the time when it is enabled."""
    shop.come(40, 1.0, "1")
    shop.save(21, enabled=False)
    shop.baseline()
    assert shop.count("error_kind = 'rule_disabled'") == 40
    shop.save(21, enabled=True)
    assert shop.lacks() is not None
    assert "done, 40 looked at, 40 matched" in shop.baseline()
    assert shop.lacks() is None


def test_sessions_are_judged_again(server: Live, seed: int) -> None:
    """A rule about sessions has a baseline like any other."""
    with over_http(server) as send:
        shop = Shop(server, send, random.Random(seed), {"target": "SESSION", "settle": 1})
        shop.save(20)
        shop.come(40, 1.0, "1")
        shop.save(21)
        assert "done, 40 looked at, 40 matched" in shop.baseline()
        assert shop.lacks() is None
        shop.come(30, 0.3, "2")
        assert shop.alerts() == [("1", "2")]


class Mood:
    """A judge that scores by the text, unless it is down."""

    def __init__(self) -> None:
        self.is_down = False

    def __call__(self, request: ModelRequest) -> Step:
        """Answer."""
        if self.is_down:
            return Status(400)
        return Says({"score": 1.0 if "on its way" in request.user else 0.0, "reason": "read"})


@pytest.fixture
def judged(server: Live, seed: int) -> Iterator[tuple[Shop, Mood, Callable[[str], None]]]:
    """Yield a project whose rule asks a judge, and how to give the judge another model."""
    mood = Mood()
    with over_http(server) as send, a_model(mood) as model:
        shop = Shop(server, send, random.Random(seed))
        address = f"{server.http}/api/v1/llm-connections"
        connection = {"name": shop.project, "baseUrl": model.base_url, "limits": {"attempts": 1}}
        made = server.client.post(address, json={**connection, "model": "one"})
        assert made.status_code == 201, made.text
        shop.keys = {"evaluator": "llm_judge", "connectionId": made.json()["id"], "criteria": "Is it known?"}

        def use(model_name: str) -> None:
            answer = server.client.put(f"{address}/{made.json()['id']}", json={**connection, "model": model_name})
            assert answer.status_code == 200, answer.text

        shop.save()
        yield shop, mood, use


def test_the_warning_stays_while_the_judge_fails(judged: tuple[Shop, Mood, Callable[[str], None]]) -> None:
    """A baseline without verdicts does not count, and another one judges the failed targets."""
    shop, mood, _ = judged
    shop.come(30, 1.0, "1")
    shop.save(criteria="Is it known, and said politely?")
    mood.is_down = True
    shop.baseline()
    assert shop.count("outcome = 'failed'") == 30
    assert "0 of the 10 required results" in str(shop.lacks())
    assert "A baseline was built" in str(shop.lacks())
    mood.is_down = False
    assert "done, 30 looked at, 30 matched" in shop.baseline()
    assert shop.lacks() is None
    shop.come(30, 0.2, "2")
    assert shop.alerts() == [("1", "2")]


def test_another_model_of_the_connection_judges_again(judged: tuple[Shop, Mood, Callable[[str], None]]) -> None:
    """A new model is a new evaluator though the rule was not edited, so the baseline is judged again."""
    shop, _, use = judged
    shop.come(30, 1.0, "1")
    use("two")
    shop.come(5, 0.2, "2")
    assert "0 of the 10 required results" in str(shop.lacks())
    assert "done, 30 looked at, 30 matched" in shop.baseline()
    assert shop.lacks() is None
    shop.come(30, 0.2, "2")
    assert shop.alerts() == [("1", "2")]


def test_states_follow_from_the_results_that_are_stored(tmp_path: Path, seed: int) -> None:
    """After a restart monitors continue, with the states that follow from the stored results."""
    data = tmp_path / "data"
    with a_live_server(data, flags=ANY_PORTS) as server, over_http(server) as send:
        shop = Shop(server, send, random.Random(seed))
        shop.save(20)
        shop.come(70, 0.9, "1")
        shop.come(40, 0.9, "2")
        shop.save(21)
        shop.backfill()
        shop.baseline()
        assert server.stop() == 0
    with a_live_server(data, flags=ANY_PORTS) as server, over_http(server) as send:
        shop.server, shop.send = server, send
        assert shop.lacks() is None
        shop.come(40, 0.2, "3")
        assert shop.alerts() == [("2", "3")]
        assert server.stop() == 0
    with a_store(data) as store:
        before = remembered(store)
        book = Book(store)
        for number in {each["state"]["settings_of"] for each in before}:
            book.revisions[number] = in_force(number, "check", {"evaluator": "length", "monitor": MONITOR})
        assert rebuild(book) == before


def test_a_baseline_says_what_it_costs_before_it_starts(judged: tuple[Shop, Mood, Callable[[str], None]]) -> None:
    """Command, API and page estimate its evaluations by a judge and their tokens; a dry run judges nothing."""
    shop, _, _ = judged
    shop.come(30, 1.0, "1")
    shop.save(criteria="Is it known, and said politely?")
    calls = shop.count("judge_calls > 0")
    estimate = shop.server.client.get(f"{shop.rules}/{shop.rule_id}/baseline").json()
    assert (estimate["evaluationsAtMost"], estimate["asksJudge"], estimate["usd"]) == (30, True, None)
    assert estimate["averagedEvaluations"] >= calls == 30
    assert estimate["tokens"] > 0
    message = f"at most 30 evaluations by a judge: some {estimate['tokens']:,.0f} tokens, cost unknown, as the latest "
    assert message in shop.command("baseline", shop.project, "--dry-run")
    assert message in shop.server.client.get(f"{shop.server.http}/rules/{shop.rule_id}").text
    assert shop.count("judge_calls > 0") == calls
    output = shop.baseline()
    assert output.startswith(message)
    assert "done, 30 looked at, 30 matched" in output


def test_a_baseline_of_a_check_asks_no_judge(shop: Shop) -> None:
    """The estimate of a check has a number of evaluations and no cost."""
    shop.come(30, 1.0, "1")
    shop.save(21)
    assert "at most 30 evaluations, without a judge" in shop.command("baseline", shop.project, "--dry-run")


def test_the_warning_names_each_place_that_lacks_results(shop: Shop) -> None:
    """Three streams by project and service and the number of others, also if only the threshold was edited."""
    services = ("api", "cart", "pay", "web")
    for service in services:
        shop.come(12, 1.0, "1", service=service)
    shop.save(evaluator="length", config={"maximumOutputLength": 20, "threshold": 0.9})
    message = str(shop.lacks())
    assert message.startswith(
        "its evaluator or threshold was changed, so the comparison restarted: monitors have 0 of "
    )
    place, _, remedy = message.partition("results of the previous release in ")[2].partition(". `tracejury ")
    assert place.endswith(" and 1 more")
    assert sum(f"project '{shop.project}' (service '{service}')" in place for service in services) == 3
    assert remedy.startswith("rules baseline ")
