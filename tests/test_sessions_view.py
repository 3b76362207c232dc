"""The view of sessions over stored and summed traces."""

from pathlib import Path

from opentelemetry.proto.trace.v1.trace_pb2 import Status

from tests.live import until
from tests.offline import an_offline_server
from tests.serving import an_export, post

QUERY = """
SELECT session_id, project, trace_count, span_count, error_trace_count, input_tokens, user_id,
    epoch(last_time - start_time) >= 20
FROM sessions ORDER BY session_id
"""


def test_a_session_has_one_row_with_what_its_traces_add_up_to(tmp_path: Path) -> None:
    """Traces, spans, errors and tokens are summed; the user is that of the first trace; a session is one row."""
    with an_offline_server(tmp_path / "data") as api:
        assert api.running is not None
        for number, (session, at_s, user) in enumerate([("s 1", 20, "bob"), ("s 1", 0, "ann"), ("s 2", 5, "eve")]):
            export = an_export(f"{number + 1:032x}", "ask", "call", at_s=at_s)
            root, call = export.resource_spans[0].scope_spans[0].spans
            root.attributes.add(key="session.id").value.string_value = session
            root.attributes.add(key="user.id").value.string_value = user
            call.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
            call.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 7
            if number == 0:
                root.status.code = Status.STATUS_CODE_ERROR
            post(f"http://{api.running.otlp_http}/v1/traces", export.SerializeToString())
        export = an_export("f" * 32, "ask")  # a trace without a session
        post(f"http://{api.running.otlp_http}/v1/traces", export.SerializeToString())
        rows = [["s 1", "shop", 2, 4, 1, 14, "ann", True], ["s 2", "shop", 1, 2, 0, 7, "eve", False]]
        until(lambda: api.sql(QUERY), lambda stored: stored == rows)
