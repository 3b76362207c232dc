"""Agreement between people: known numbers, and over HTTP, on the page of a queue and by command."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from rules.statistics.agreeing import Agreement, OneVote, agreement
from rules.statistics.correcting import IntervalMeasure
from tests.offline import Offline, an_offline_server
from tests.paging import Visit
from tests.serving import run

NOVEMBER_US, DECEMBER_US = 1_795_255_200_000_000, 1_796_600_000_000_000


def votes(*raters: Sequence[str | float], at_us: int = NOVEMBER_US) -> list[OneVote]:
    """Build votes: one label per unit from each rater; a dash is not a vote."""
    return [
        OneVote(target=f"unit {unit:03}", author=f"rater {rater}", value=value, at_us=at_us)
        for rater, labels in enumerate(raters)
        for unit, value in enumerate(labels)
        if value != "-"
    ]


def value(measure: IntervalMeasure) -> float:
    """Return a measure that is defined, inside its interval."""
    assert measure.value is not None
    assert measure.interval is not None
    assert measure.interval.low <= measure.value <= measure.interval.high
    assert measure.interval.low < measure.interval.high
    return measure.value


def test_alpha_of_three_raters_with_gaps_is_the_published_one() -> None:
    """Krippendorff's alpha leaves out what one rater alone judged; kappa of Fleiss takes those with three votes."""
    measured = agreement(votes("110101-", "1001011", "110-001"))
    assert value(measured.alpha) == pytest.approx(0.590909, abs=1e-6)
    assert (measured.votes, measured.targets, measured.shared) == (19, 7, 7)
    assert (measured.raters, measured.fleiss_targets) == (3, 5)
    assert "do not agree enough" in measured.in_words


def test_fleiss_kappa_is_the_known_one() -> None:
    """Six units with three raters, pass and fail 30 21 03 12 30 03, have a kappa of 0.555556."""
    rows = ("ppp", "ppf", "fff", "pff", "ppp", "fff")
    measured = agreement(votes(*("".join(column) for column in zip(*rows, strict=True))))
    assert value(measured.fleiss) == pytest.approx(0.555556, abs=1e-6)


def test_each_two_people_and_each_label_are_told() -> None:
    """The table 20 5 / 10 15 of two people has a kappa of 0.4, and says what the other chose instead of each label."""
    one = "p" * 25 + "f" * 25
    other = "p" * 20 + "f" * 5 + "p" * 10 + "f" * 15
    measured = agreement(votes(one, other))
    (pair,) = measured.pairs
    assert (pair.targets, pair.agreed) == (50, 0.7)
    assert value(pair.kappa) == pytest.approx(0.4, abs=1e-6)
    assert pair.kappa.interval is not None
    assert (pair.kappa.interval.low, pair.kappa.interval.high) == pytest.approx((0.151092, 0.648908), abs=1e-5)
    by_label = {each.label: (each.votes, each.agreed, each.instead) for each in measured.labels}
    assert by_label == {"p": (55, 40 / 55, {"f": 15}), "f": (45, 30 / 45, {"p": 15})}
    assert len(measured.disagreed) == 15
    assert {len(set(each.votes.values())) for each in measured.disagreed} == {2}


def test_scores_agree_by_how_far_they_are_apart() -> None:
    """The published example of four raters has an alpha of 0.849107; the largest disagreement comes first."""
    raters = (
        "1 2 3 3 2 1 4 1 2 - - -",
        "1 2 3 3 2 2 4 1 2 5 - 3",
        "- 3 3 3 2 3 4 2 2 5 1 -",
        "1 2 3 3 2 4 4 1 2 5 1 -",
    )
    scores = [[value if value == "-" else float(value) for value in rater.split()] for rater in raters]
    measured = agreement(votes(*scores))
    assert measured.metric == "interval"
    assert value(measured.alpha) == pytest.approx(0.849107, abs=1e-6)
    assert measured.fleiss.value is None
    assert measured.disagreed[0].target == "unit 005"
    assert "can be relied on" in measured.in_words


def test_months_are_told_apart() -> None:
    """Raters who agreed in November and not in December have an alpha for each month."""
    early = votes("ppff", "ppff")
    late = [
        OneVote(target=f"late {each.target}", author=each.author, value=each.value, at_us=DECEMBER_US)
        for each in votes("ppff", "ffpp")
    ]
    measured = agreement([*early, *late])
    assert [(each.month, each.targets) for each in measured.months] == [("2026-11", 4), ("2026-12", 4)]
    assert measured.months[0].alpha == 1
    assert measured.months[1].alpha is not None
    assert measured.months[1].alpha < 0


def test_nothing_is_said_where_nothing_is_known() -> None:
    """Without votes, with one person, and where all say one thing no measure is defined."""
    for nothing in ([], votes("pfp"), votes("ppp", "ppp")):
        measured: Agreement = agreement(nothing)
        assert measured.alpha.value is None
        assert "Unknown: two people" in measured.in_words


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Offline]:
    """Start a server for each test."""
    with an_offline_server(tmp_path / "data") as server:
        yield server


def test_agreement_is_told_everywhere(api: Offline) -> None:
    """The route, the page of the queue and the command tell one thing; who is unsure says nothing."""
    run_id = api.begin()
    api.report(run_id, *({"itemKey": f"item {each}", "inputs": {"q": each}} for each in range(8)))
    queue = api.ask("POST", "review-queues", 201, json={"name": "q", "reviewers": 2})["id"]
    api.ask("POST", f"review-queues/{queue}/entries", 201, json={"runId": run_id})
    other = api.ask("POST", "review-queues", 201, json={"name": "empty", "reviewers": 2})["id"]
    for entry in api.ask("GET", f"review-queues/{queue}/entries")["content"]:
        number = int(entry["itemResultId"]) % 8
        for by, labels in (("Ada", "CCCCIIIU"), ("Bob", "CCCIIIII")):
            label = {"C": "CORRECT", "I": "INCORRECT", "U": "UNSURE"}[labels[number]]
            path = f"review-queues/{queue}/entries/{entry['id']}/vote"
            api.ask("PUT", path, params={"by": by}, json={"label": label})
    document = api.ask("GET", "agreement", params={"queue": queue})
    assert (document["shared"], document["targets"], document["votes"]) == (7, 8, 15)
    assert document["alpha"]["value"] == pytest.approx(1 - (2 / 14) / (2 * 7 * 7 / (14 * 13)), abs=1e-9)
    assert [(each["one"], each["other"], each["targets"]) for each in document["pairs"]] == [("Ada", "Bob", 7)]
    assert [set(each["votes"].values()) for each in document["disagreed"]] == [{"CORRECT", "INCORRECT"}]
    assert api.ask("GET", "agreement")["alpha"] == document["alpha"]
    assert api.ask("GET", "agreement", params={"queue": other})["votes"] == 0
    api.ask("GET", "agreement", 404, params={"queue": "none"})
    with Visit(api.url) as visit:
        text = visit.get(f"/review/{queue}").text
        assert f"{document['alpha']['value']:.2f}" in text.partition('id="agreement"')[2]
        assert 'id="agreement"' not in visit.get(f"/review/{other}").text
    output = run("review", "agreement", "q", "--server", api.url).output
    assert f"{document['alpha']['value']:.2f} (" in output
    assert "Ada, Bob" in output
