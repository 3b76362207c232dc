"""Lists of the command line for programs: whole values without a terminal."""

from pathlib import Path

from tests.connecting import a_connection
from tests.live import a_client, until
from tests.serving import PROTOBUF, a_server, an_export, run

LONG = "a-name-of-many-parts-" * 9 + "end"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def test_lists_are_whole_for_a_program(tmp_path: Path) -> None:
    """Ids, names, reasons and URLs come whole in every list that is piped, however long they are."""
    with a_server(tmp_path / "data", webhook_private_hosts=["127.0.0.1"]) as server, a_client() as client:
        url, at = f"http://{server.http}", ("--server", f"http://{server.http}")
        export = an_export(TRACE, LONG, project=LONG)
        export.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="session.id").value.string_value = LONG
        export.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="user.id").value.string_value = LONG
        headers = {"content-type": PROTOBUF}
        client.post(f"http://{server.otlp_http}/v1/traces", content=export.SerializeToString(), headers=headers)
        until(lambda: client.get(f"{url}/api/v1/sessions").json()["content"], bool)
        rule = {"name": LONG, "target": "TRACE", "evaluator": "tool_error"}
        client.post(f"{url}/api/v1/projects/*/trace-eval-rules", json=rule).raise_for_status()
        hook = {"url": f"https://hooks.example.org/{LONG}"}
        client.post(f"{url}/api/v1/projects/*/alert-webhooks", json=hook).raise_for_status()
        connection = a_connection("http://127.0.0.1:9/" + LONG)
        client.post(f"{url}/api/v1/llm-connections", json=connection).raise_for_status()
        client.post(f"{url}/api/v1/projects/{LONG}/runs", json={"experimentName": LONG}).raise_for_status()
        for command, value in (
            (("traces", "list"), LONG),
            (("sessions", "list"), LONG),
            (("rules", "list"), LONG),
            (("webhooks", "list"), hook["url"]),
            (("connections", "list"), connection["baseUrl"]),
            (("experiments", "list", LONG), LONG),
            (("sql", "SELECT trace_id, name FROM spans"), LONG),
            (("sql", "SELECT repeat('a line\n', 30) || 'the end' AS text"), "the end"),
            (("sql", "SELECT repeat('x', 9000) || 'y' AS text"), "x" * 9000 + "y"),
        ):
            listed = run(*command, *at)
            assert listed.exit_code == 0, (command, listed.output)
            assert value in listed.output, (command, listed.output[:2000])
