"""Votes of people on sessions: one each, kept with the session when later traces come, and taken back."""

from pathlib import Path
from urllib.parse import quote

from tests.live import until
from tests.offline import Offline, an_offline_server
from tests.serving import an_export, post

SESSION = "chat/with slashes?and=more"


def send(api: Offline, number: int) -> None:
    """Send a trace of the session."""
    assert api.running is not None
    request = an_export(f"{number:032x}", "root", at_s=number)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="session.id").value.string_value = SESSION
    post(f"http://{api.running.otlp_http}/v1/traces", request.SerializeToString())
    until(lambda: api.sql("SELECT count(*) FROM traces WHERE session_id IS NOT NULL"), lambda rows: rows == [[number]])


def test_a_session_is_voted_on(tmp_path: Path) -> None:
    """Votes before and after a later trace are one person's; an adjudicator stands above, and each can be withdrawn."""
    place = f"session-annotation?sessionId={quote(SESSION, safe='')}"
    with an_offline_server(tmp_path / "data") as api:
        api.ask("PUT", place, 404, json={"verdict": "CORRECT", "by": "Ada"})
        send(api, 1)
        api.ask("GET", place, 404)
        first = api.ask("PUT", place, json={"verdict": "CORRECT", "by": "Ada", "note": "solved"})
        assert (first["target"], first["sessionId"], first["traceId"]) == ("session", SESSION, f"{1:032x}")
        send(api, 2)
        assert api.ask("GET", place)["note"] == "solved"
        second = api.ask("PUT", place, json={"verdict": "INCORRECT", "by": "Ada"})
        assert second["traceId"] == f"{2:032x}"
        counted = "SELECT author, label FROM annotations WHERE NOT superseded"
        assert api.sql(counted) == [["Ada", "INCORRECT"]]
        api.ask("PUT", place, json={"verdict": "CORRECT", "by": "Eve", "adjudicates": True})
        assert api.ask("GET", place)["author"] == "Eve"
        api.ask("PUT", place, json={"verdict": "UNSURE"})
        api.ask("DELETE", place, 204)
        assert sorted(api.sql(f"{counted} AND NOT withdrawn")) == [["Ada", "INCORRECT"], ["Eve", "CORRECT"]]
