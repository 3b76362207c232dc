"""A judge that is too lenient, a hundred votes, and what Quality says before and after.

Run it beside `tracejury serve`: python docs/examples/biased_judge.py [http://127.0.0.1:8080]
The model is a script in this file, so nothing is asked outside of this machine.
"""

import json
import re
import secrets
import sys
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS = 300
VOTES = range(0, ANSWERS, 3)
MARK = secrets.token_hex(4)  # so that it can be run again


def is_good(number: int) -> bool:
    """What people would say of an answer: seven of ten are good."""
    return number % 10 < 7


class LenientModel(BaseHTTPRequestHandler):
    """Passes all good answers but a few, and every other bad one."""

    def do_POST(self) -> None:
        """Score the answer that was asked about."""
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        number = int(re.findall(r"answer number (\d+)", asked)[-1])
        passes = number % 20 != 0 if is_good(number) else number % 20 < 10
        said = json.dumps({"reason": "as I like it", "score": float(passes)})
        choice = {"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}
        answer = {"id": "1", "object": "chat.completion", "model": "lenient", "choices": [choice], "usage": usage}
        body = json.dumps(answer)
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def ask(server: str, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
    """What the API answers."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{server}/api/v1/{path}", data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def trace_of(number: int) -> str:
    """The id of the trace with an answer."""
    return f"{MARK}{number + 1:024x}"


def export() -> dict[str, Any]:
    """All answers as OTLP, a trace each."""
    now_ns = time.time_ns()
    spans = [
        {
            "traceId": trace_of(number),
            "spanId": f"{number + 1:016x}",
            "name": "chat",
            "startTimeUnixNano": str(now_ns - 2_000_000_000),
            "endTimeUnixNano": str(now_ns - 1_000_000_000),
            "attributes": [{"key": "output.value", "value": {"stringValue": f"answer number {number}"}}],
        }
        for number in range(ANSWERS)
    ]
    service = {"key": "service.name", "value": {"stringValue": f"biased-{MARK}"}}
    return {"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": [{"spans": spans}]}]}


def show(server: str, place: str, when: str) -> None:
    """What is said of the judge."""
    (judge,) = ask(server, "GET", f"{place}/calibration")["judges"]
    print(f"{when}:")
    for name in ("raw", "corrected", "sensitivity", "specificity"):
        found = judge[name]
        told = "not known"
        if found["low"] is not None:
            told = f"{found['value']:.1%} ({found['low']:.1%} to {found['high']:.1%})"
        print(f"  {name:<12} {told}")
    print(f"  {judge['inWords']}")


def main(server: str) -> None:
    """Judge, show, vote, show again."""
    model = ThreadingHTTPServer(("127.0.0.1", 0), LenientModel)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    project, url = f"biased-{MARK}", f"http://127.0.0.1:{model.server_port}/v1"
    connection = {"name": project, "baseUrl": url, "model": "lenient", "protocol": "CHAT_COMPLETIONS"}
    made = ask(server, "POST", "llm-connections", connection)
    config = {"criteria": "Is it polite?", "evaluationParams": ["ACTUAL_OUTPUT"]}
    rule = {"name": "polite", "evaluator": "llm_judge", "connectionId": made["id"], "config": config}
    place = f"projects/{project}/trace-eval-rules"
    place = f"{place}/{ask(server, 'POST', place, rule)['id']}"
    ask(server, "POST", "traces", export())
    while not (judges := ask(server, "GET", f"{place}/calibration")["judges"]) or judges[0]["judged"] < ANSWERS:
        time.sleep(0.2)
    show(server, place, "Before any votes")
    for number in VOTES:
        vote = {"verdict": "CORRECT" if is_good(number) else "INCORRECT", "by": "Ada"}
        ask(server, "PUT", f"traces/{trace_of(number)}/annotation?spanId={number + 1:016x}", vote)
    show(server, place, f"After {len(VOTES)} votes")
    print(f"Seven of ten are good. See {server}/quality?project={project}")
    model.shutdown()


if __name__ == "__main__":
    main((sys.argv[1:] or ["http://127.0.0.1:8080"])[0])
