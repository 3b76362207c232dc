"""Items of runs for review: those that did not pass, and have no decision."""

from pathlib import Path
from typing import Any

from tests.offline import Offline, an_offline_server


def an_item(key: str, score: float, **more: Any) -> dict[str, Any]:
    """Build an item that one evaluator scored."""
    verdict = {"name": "exact", "score": score, "threshold": 1.0, "reason": "why"}
    return {
        "itemKey": key,
        "inputs": {"input": key},
        "expectedOutputs": {"output": "right"},
        "actualOutputs": {"output": "said"},
        "evalResults": [verdict],
        **more,
    }


def listed(api: Offline, **params: Any) -> list[str]:
    """Return the keys of the items that are listed."""
    return [each["itemKey"] for each in api.ask("GET", "review-queue", params=params)["content"]]


def test_items_wait_until_somebody_decides(tmp_path: Path) -> None:
    """The latest run first, without what passed, by project, experiment and run; who is unsure decides nothing."""
    with an_offline_server(tmp_path / "data") as api:
        first = api.begin()
        api.report(first, an_item("a", 0), an_item("b", 1), an_item("c", 0), an_item("e", 0, error="it broke"))
        other = api.begin("farm", experimentName="cows")
        api.report(other, an_item("d", 0))
        assert listed(api) == ["d", "a", "c"]
        assert listed(api, size=1, page=1) == ["a"]
        assert listed(api, projectName="shop") == listed(api, runId=first) == ["a", "c"]
        assert listed(api, experimentId=api.ask("GET", f"runs/{other}")["experimentId"]) == ["d"]
        assert (listed(api, outcome="passed"), listed(api, outcome="error")) == (["b"], ["e"])
        assert listed(api, projectName="nobody") == []
        (item,) = api.ask("GET", "review-queue", params={"runId": other})["content"]
        assert (item["runId"], item["projectName"], item["experimentName"]) == (other, "farm", "cows")
        assert (item["input"], item["expectedOutput"]) == ({"input": "d"}, {"output": "right"})
        assert (item["actualOutput"], item["evalResults"][0]["reason"]) == ({"output": "said"}, "why")
        vote = f"runs/{other}/items/{item['id']}/annotation"
        api.ask("PUT", vote, json={"verdict": "UNSURE", "by": "Ada"})
        assert listed(api) == ["d", "a", "c"]
        api.ask("PUT", vote, json={"verdict": "INCORRECT"})
        assert listed(api) == ["a", "c"]
        api.ask("DELETE", vote, 204)
        assert listed(api) == ["d", "a", "c"]
        api.ask("GET", "review-queue", 400, params={"verdict": "none"})
