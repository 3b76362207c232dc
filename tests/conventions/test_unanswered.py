"""Runs that ended without an answer: what a model says before a call of a tool is not judged in its place."""

import asyncio
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import pytest

from collector.conventions.member import TraceMember, member_of
from collector.conventions.messages import tool_request
from collector.conventions.own_keys import NO_KEYS
from collector.conventions.span import read_span
from collector.conventions.trace import sums_of_tree
from collector.conventions.tree import Tree, tree_of
from collector.evaluation.session_case import case_of_session
from collector.evaluation.trace_case import case_of_trace
from evaluators.evaluator import run
from evaluators.outcome import Skipped
from evaluators.registry import build
from storage.records import Span
from tests.conventions.corpus_reading import SCENARIOS
from tests.conventions.making import SECOND_NS, a_span, call, read_all, response, text
from tests.conventions.test_columnar import a_batch, a_request, assert_traces_alike, corpus, records_of

WORDS, ANSWER = "I look up your order.", "It comes on Monday."
FAILED: Final[Mapping[str, Any]] = {"status_code": 2, "status_message": "rate limited"}
LOOK_UP = call("orders", {"id": 7}, "c1")["parts"]
DRAFT = {"role": "assistant", "parts": [*text("assistant", WORDS)["parts"], *LOOK_UP]}
REQUEST = {"role": "assistant", "parts": LOOK_UP}
AGENT, TOOL = {"gen_ai.operation.name": "invoke_agent"}, {"gen_ai.operation.name": "execute_tool"}
CHAT = {"gen_ai.operation.name": "chat"}


def answering(*messages: Any, kind: str = "chat") -> dict[str, Any]:
    """Return a span of a model, or another, with these messages as its answer."""
    return {"gen_ai.operation.name": kind, "gen_ai.output.messages": json.dumps(messages)}


class Run:
    """An agent that calls a model and a tool, each step a second later than the previous one."""

    def __init__(self, first: Any = DRAFT, root: Mapping[str, Any] | None = None, **of_root: Any) -> None:
        self.root = a_span({**AGENT, **(root or {})}, end_ns=100 * SECOND_NS, **of_root)
        self.spans = [self.root]
        self.add(answering(first))

    def add(self, attributes: Mapping[str, Any], *, below: Span | None = None, **more: Any) -> "Run":
        """Return the run with one more step."""
        self.spans.append(a_span(attributes, parent=below or self.root, **{"start_s": len(self.spans), **more}))
        return self

    def tool(self, result: str | None = "found", **more: Any) -> "Run":
        """Return the run with the execution of the tool."""
        content = {} if result is None else {"gen_ai.tool.call.result": result}
        return self.add({**TOOL, "gen_ai.tool.name": "orders", **content}, **more)

    @property
    def output(self) -> str | None:
        """Return the output of the trace, which the final response never contradicts."""
        reading = read_all(*self.spans)
        assert reading.final_response in (reading.output, None)
        return reading.output


def unanswered_runs(first: Any = DRAFT) -> dict[str, Run]:
    """Return runs whose last model asked for a tool, and which have no answer."""
    handed = Run(first).tool()
    inner = Run(first).tool()
    inner.add(answering(text("assistant", "The order is here.")), below=inner.spans[-1])
    step = Run(first)
    step.add({"openinference.span.kind": "CHAIN", "output.value": '{"node": "tools"}'}).tool(below=step.spans[-1])
    cut_off = Run(first)
    cut_off.spans[1] = replace(cut_off.spans[1], **FAILED)
    orphan = Run(first).tool().add(CHAT)
    return {
        "the last model failed": Run(first).tool().add(CHAT, **FAILED),
        "the last answer was not captured": Run(first).tool().add(CHAT),
        "the tool failed": Run(first).tool(None, **FAILED),
        "the run failed": Run(first, **FAILED).tool(),
        "the model that asked failed": cut_off,
        "of another agent nothing is known": handed.add(AGENT),
        "the root repeats the words": Run(DRAFT, {"output.value": WORDS}).tool().add(CHAT, **FAILED),
        "the root repeats the messages": Run(
            first, {"gen_ai.output.messages": json.dumps([first, response("found", "c1")])}
        )
        .tool()
        .add(CHAT, **FAILED),
        "an agent within the tool answered": inner.add(CHAT, **FAILED),
        "a step of the graph has an output": step.add(CHAT),
        "the root did not come": replace_spans(orphan, orphan.spans[1:]),
        "a call without words followed": Run(first).tool().add(answering(REQUEST)).tool(None, **FAILED),
    }


def replace_spans(run_of: Run, spans: Sequence[Span]) -> Run:
    """Return the run with these spans alone."""
    run_of.spans = list(spans)
    return run_of


def answered_runs() -> dict[str, tuple[Run, str]]:
    """Return runs that have an answer, although a call or a failure is near it, with the answer."""
    final = answering(text("assistant", ANSWER))
    double = Run()
    double.add(CHAT, below=double.spans[1], scope="client", start_s=1)
    inner = Run().tool()
    inner.add(CHAT, below=inner.spans[-1], **FAILED)
    searched = {"role": "assistant", "parts": [*LOOK_UP, *text("assistant", ANSWER)["parts"]]}
    listed = {"role": "assistant", "parts": [*text("assistant", ANSWER)["parts"], *LOOK_UP]}
    whole, stepped = Run(**FAILED), Run(listed, **FAILED)
    handed = Run().tool().add(AGENT)
    handed.add(final, below=handed.spans[-1])
    stream = Run().tool().add(CHAT)
    stream.add(final, below=stream.spans[-1])
    finish = {"role": "assistant", "parts": call("final_answer", {"answer": ANSWER}, "c2")["parts"]}
    structured = json.dumps([finish])
    return {
        "the model answered after a failed tool": (Run().tool(None, **FAILED).add(final), ANSWER),
        "the model was asked again": (Run().tool().add(CHAT, **FAILED).add(final), ANSWER),
        "the run failed after the answer": (Run(**FAILED).tool().add(final), ANSWER),
        "a guardrail failed after the answer": (
            Run().tool().add(final).add({"openinference.span.kind": "GUARDRAIL"}, **FAILED),
            ANSWER,
        ),
        "a memory failed after the call": (Run().tool().add({"gen_ai.operation.name": "embeddings"}, **FAILED), WORDS),
        "the run ended with the call": (Run(), WORDS),
        "the run ended with a tool": (Run().tool(), WORDS),
        "the run ended with a tool that returns nothing": (Run().tool(None), WORDS),
        "the answer is still to come": (replace_spans(r := Run().tool(), r.spans[1:]), WORDS),
        "the client library tells of the call again": (double, WORDS),
        "a model within the last tool failed": (inner, WORDS),
        "the root says what went wrong": (
            Run(root={"output.value": "Please try again."}, **FAILED).tool().add(CHAT, **FAILED),
            "Please try again.",
        ),
        "the root has the answer": (Run(root={"output.value": ANSWER}).tool().add(CHAT), ANSWER),
        "another agent answered deeper": (handed, ANSWER),
        "the root repeats the request": (
            Run(root={"gen_ai.output.messages": json.dumps([DRAFT])}).tool().add(final),
            ANSWER,
        ),
        "the root repeats the request and its result": (
            Run(root={"gen_ai.output.messages": json.dumps([DRAFT, response("found", "c1")])}).tool().add(final),
            ANSWER,
        ),
        "the client library alone has the answer": (stream, ANSWER),
        "a tool takes the answer": (Run().tool().add(answering(finish)), structured),
        "a tool takes the answer and refuses it once": (
            Run().tool().add(answering(finish)).tool(None, **FAILED).add(answering(finish)),
            structured,
        ),
        "a check calls a tool after the answer": (Run().tool().add(final).add(answering(REQUEST)), ANSWER),
        "the provider searched itself": (Run(searched, **FAILED), ANSWER),
        "an agent lists its calls after its answer": (
            replace_spans(whole, whole.spans[:1]).add(answering(listed, kind="invoke_agent")),
            ANSWER,
        ),
        "a model lists its calls after its answer": (stepped.tool(below=stepped.spans[1], start_s=0.1), ANSWER),
    }  # fmt: skip


@pytest.mark.parametrize("name", unanswered_runs())
@pytest.mark.parametrize("first", [DRAFT, REQUEST], ids=["words", "call"])
def test_a_run_that_ended_before_its_answer_has_no_output(name: str, first: Any) -> None:
    """Text before a call is not an answer of a run that then failed or returned nothing, nor is the call."""
    assert unanswered_runs(first)[name].output is None


@pytest.mark.parametrize("name", answered_runs())
def test_a_run_that_ended_well_keeps_its_output(name: str) -> None:
    """A failure elsewhere, or content that is missing elsewhere, takes no answer away."""
    run_of, output = answered_runs()[name]
    assert run_of.output == output


def test_runs_without_an_answer_are_read_by_columns_alike() -> None:
    """A batch of all these runs says of each what its spans say one by one."""
    runs = [
        *unanswered_runs().values(),
        *unanswered_runs(REQUEST).values(),
        *(one for one, _ in answered_runs().values()),
    ]
    spans = [
        replace(span, trace_id=f"{number + 1:032x}") for number, one in enumerate(runs) for span in one.spans
    ]  # fmt: skip
    assert_traces_alike(a_batch(a_request(spans)))


@pytest.mark.parametrize("name", ["the last model failed", "the last answer was not captured"])
@pytest.mark.parametrize("evaluator", ["regex", "length"])
def test_evaluators_of_the_output_skip_a_run_without_an_answer(name: str, evaluator: str) -> None:
    """They say that the output was not captured, also of a session that ends with such a run."""
    spans = unanswered_runs()[name].spans
    turn = Run(text("assistant", ANSWER)).spans
    earlier = [replace(span, trace_id="e" * 32, start_ns=span.start_ns - SECOND_NS) for span in turn]
    settings: Any = {"pattern": "order"} if evaluator == "regex" else {"maximumOutputLength": 100}
    for case in (
        case_of_trace(read_all(*spans), spans),
        case_of_session("s", [(earlier, ()), (spans, ())], NO_KEYS),
    ):
        outcome = asyncio.run(run(build(evaluator, settings), case))
        assert isinstance(outcome, Skipped)
        assert outcome.reason.startswith("not captured: output")


def cut(tree: Tree, *, failed: bool) -> Iterator[TraceMember]:
    """Yield the spans of a run without the output of its last model call, here and in the spans above it."""
    last = [span for span in tree.spans.values() if span.span_type == "llm" and span.output is not None][-1]
    around = {last.span_id, *tree.above(last.span_id)}
    for span in tree.spans.values():
        changes: dict[str, Any] = {}
        if span.span_type != "tool" and (span.end_ns or span.start_ns) >= last.start_ns:
            changes = {"output": None, "answered": None}
        if failed and span.span_id in around:
            changes["error"] = "rate limited"
        yield TraceMember(**{field.name: getattr(span, field.name) for field in fields(span)} | changes)


@pytest.mark.costly("collector/conventions", "collector/otlp", "collector/unanswered.py")
def test_no_recorded_run_without_its_last_answer_has_an_output() -> None:
    """Of each recorded run with calls of tools whose last answer is taken away, no output is left."""
    counted = 0
    for folder, is_failed in itertools.product(SCENARIOS, (False, True)):
        tree = tree_of([member_of(span, read_span(span, (), NO_KEYS)) for span in records_of(a_batch(corpus(folder)))])
        if sum(span.span_type == "llm" and span.output is not None for span in tree.spans.values()) > 1:
            lost = tree_of(list(cut(tree, failed=is_failed)))
            if any(tool_request(span.output_messages) is not None for span in lost.spans.values()):
                counted += 1
                assert (sums_of_tree(lost).output, is_failed, _name(folder)) == (None, is_failed, _name(folder))
    assert counted > 100


def _name(folder: Path) -> str:
    return f"{folder.parent.name}/{folder.name}"
