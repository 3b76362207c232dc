"""What came before the sample: many traces of an agent, so that quality, monitors and alerts have something to show."""

import hashlib
import time
from contextlib import closing
from dataclasses import replace
from typing import Final

from collector.sample import WatchedExporter, grpc_exporter, send_trace
from collector.sample_agents import SampleApplication, agent_step, tool_step

_GOOD: Final = 24
_BAD: Final = 16
"""Traces of the release before, and of the worse one: enough for an alert, and for an interval that tells something."""
_APART_NS: Final = 150 * 10**9


def send_history(*, grpc: str, key: str | None = None) -> int:
    """Send traces of two releases, of which the second is worse; how many spans they are.

    Raises:
        SampleNotSent: the door did not take all of them.
    """
    now_ns = time.time_ns()
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    with closing(WatchedExporter(grpc_exporter(grpc, headers), f"gRPC to {grpc}")) as over_grpc:
        for number in range(_GOOD + _BAD):
            is_good = number < _GOOD or (number - _GOOD) % 4 == 0
            version = "1.8.0" if number < _GOOD else "1.9.0"
            ago_ns = (_GOOD + _BAD + 1 - number) * _APART_NS
            send_trace(_checkout(number, version, is_good=is_good), over_grpc, now_ns - ago_ns)
        return over_grpc.taken


def _checkout(number: int, version: str, *, is_good: bool) -> SampleApplication:
    order = f"{5200 + number}"
    answered = f"Order {order} is paid." if is_good else "The payment did not go through. Please try again."
    error = None if is_good else TimeoutError("the payment provider did not answer within 2 s")
    pay = tool_step(
        40, 310 if is_good else 2045, "charge_card", {"order_id": order}, {"paid": True} if is_good else None
    )
    end_ms = 420 if is_good else 2160
    return SampleApplication(
        trace_id=hashlib.sha256(f"checkout {order}".encode()).hexdigest()[:32],
        service_name="checkout-agent",
        version=version,
        scope="opentelemetry.instrumentation.langchain",
        scope_version="0.61.0",
        about="an agent that takes a payment",
        root=agent_step("checkout", f"Pay for order {order}.", answered, end_ms, (replace(pay, error=error),)),
    )
