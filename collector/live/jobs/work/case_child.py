"""The process that runs checks on test cases: cases in, outcomes out, until its input ends."""

import asyncio
import signal
from collections.abc import Mapping
from typing import Any, BinaryIO

from collector.live.jobs.work.child import ring
from collector.memory import collect_rarely
from evaluators.case import parse_case
from evaluators.errors import EvaluationError
from evaluators.evaluator import Evaluator, run
from evaluators.outcome import Failure
from evaluators.registry import build
from storage import child_process
from storage.wire import receive, send


def main() -> None:
    """Answer requests on standard input until it ends."""
    collect_rarely()
    child_process.run(serve)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests until the input ends; the first one has the limit of processor time of a check."""
    asyncio.run(_serve(requests, answers))


async def _serve(requests: BinaryIO, answers: BinaryIO) -> None:
    first = receive(requests)
    if first is None:
        return
    cpu_s = float(first[0]["cpu_s"])
    signal.signal(signal.SIGPROF, ring)
    while (request := receive(requests)) is not None:
        header, _ = request
        name = str(header["config"].get("name") or header["evaluator"])
        evaluator = _built(header)
        outcomes = [await _outcome(evaluator, name, case, cpu_s) for case in header["cases"]]
        send(answers, {"outcomes": outcomes}, [])


def _built(header: Mapping[str, Any]) -> Evaluator | EvaluationError:
    try:
        return build(header["evaluator"], header["config"])
    except EvaluationError as broken:
        return broken


async def _outcome(evaluator: Evaluator | EvaluationError, name: str, case: object, cpu_s: float) -> dict[str, Any]:
    try:
        if isinstance(evaluator, EvaluationError):
            raise evaluator
        try:
            signal.setitimer(signal.ITIMER_PROF, cpu_s)
            return (await run(evaluator, parse_case(case))).to_document()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    except EvaluationError as broken:
        return Failure(name=name, fingerprint=None, kind=broken.kind, message=str(broken), usage=None).to_document()
