"""Runs that ended without an answer: neither a tool call nor the text before it is an answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from collector.conventions.member import TraceMember
from collector.conventions.messages import answer_text, tool_request
from collector.conventions.tree import Tree

ANSWERING: Final = (("llm",), ("agent", "chain"), ("other",))
"""Kinds of spans that may hold the answer of a trace, by precedence."""

ANSWERERS: Final = ("llm", "agent")
"""Kinds of steps that should have an answer."""

_STEPS: Final = (*ANSWERERS, "chain", "tool")  # a failed span of another kind, such as a guardrail, ends no run
_MAX_LEVELS: Final = 64  # a guess: spans between a step and the tool that it is part of

BLANKS: Final = " \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """A model's request for tools after which the run failed or ended silently."""

    request: TraceMember
    until_ns: int  # a span that ended before this is a step of the run, not its end


def unanswered(tree: Tree) -> Unanswered | None:
    """Return the last answer of a trace if it requests tools and the run then failed, or has no output; else None.

    A run that ended with a call and without a failure is complete: the call is a handoff, a form, or the last tool.
    """
    if not any(map(_lacks_answer, tree.spans.values())):
        return None
    last = _last_answer(tree)
    words = None if last is None else tool_request(last.output_messages)
    if last is None or words is None or _is_answered_beside(tree, last, words):
        return None
    ends_ns = list(_bad_ends(tree, last))
    return Unanswered(request=last, until_ns=max(ends_ns)) if ends_ns else None


def output_beside(tree: Tree, root: TraceMember | None, lack: Unanswered) -> str | None:
    """Return the output of a run without a model's answer: of the root, an agent, or a chain around the request.

    Of several, the last of the topmost counts. An output that repeats the text of a request for tools is ignored.
    """
    requests = {""}
    for span in tree.spans.values():
        if _end_ns(span) <= _end_ns(lack.request) and span.has_tools_in_output:
            requests.add((tool_request(span.output_messages) or "").strip(BLANKS))
    around = {*tree.above(lack.request.span_id)}
    others = [
        span
        for span in tree.spans.values()
        if (span is root or span.span_type == "agent" or (span.span_type == "chain" and span.span_id in around))
        and span is not lack.request
        and _end_ns(span) >= lack.until_ns
        and _words(span) not in requests
        and (span is root or not _tools_above(tree, span))
    ]
    return min(reversed(others), key=lambda span: tree.depths[span.span_id]).output if others else None


def _bad_ends(tree: Tree, last: TraceMember) -> Iterator[int]:
    """Yield the start of each later step that failed or has no output, and the end of each failed span around."""
    if _has_failed(last):
        yield _end_ns(last)
    own = _tools_above(tree, last)
    for span in tree.spans.values():
        is_later_step = span is not last and span.span_type in _STEPS and span.start_ns >= _end_ns(last)
        # Ignore steps within a tool: their failure may be a regular result of the tool.
        if is_later_step and _lacks_answer(span) and _tools_above(tree, span) <= own:
            yield span.start_ns
    if not _may_be_whole(tree, last):
        above = (tree.spans[span_id] for span_id in tree.above(last.span_id))
        yield from (_end_ns(span) for span in above if _has_failed(span))


def _may_be_whole(tree: Tree, last: TraceMember) -> bool:
    """Return True if a span may stand for several model calls, with the text of the last one and the requests of all.

    Agents do, and so do models if tools below them ran without a failure. A failed span around such a span is ignored.
    """
    if not tool_request(last.output_messages):
        return False
    tools = [
        span
        for span in tree.spans.values()
        if span.span_type == "tool" and last.span_id in tree.above(span.span_id, _MAX_LEVELS)
    ]
    return last.span_type != "llm" or (bool(tools) and not any(map(_has_failed, tools)))


def _last_answer(tree: Tree) -> TraceMember | None:
    """Return the last answer of a model, else of an agent or a chain, then of a span of kind `other`.

    Spans within tools count only if there are no others.
    """
    for kinds in ANSWERING:
        spans = [span for span in tree.spans.values() if span.span_type in kinds and span.output is not None]
        if spans:
            return next((span for span in reversed(spans) if not _tools_above(tree, span)), spans[-1])
    return None


def _is_answered_beside(tree: Tree, last: TraceMember, words: str) -> bool:
    """Return whether a later span, not of a model, has other words of an assistant, without a request for tools."""
    for span in tree.spans.values():
        if span.start_ns < last.start_ns or span.span_type in ANSWERING[0] or not span.answered:
            continue
        text = answer_text(span.output_messages)
        is_other = text is not None and text.strip(BLANKS) != words.strip(BLANKS)
        if is_other and tool_request(span.output_messages) is None and not _tools_above(tree, span):
            return True
    return False


def _words(span: TraceMember) -> str:
    request = tool_request(span.output_messages) if span.has_tools_in_output else None
    return ((span.output or "") if request is None else request).strip(BLANKS)


def _has_failed(span: TraceMember) -> bool:
    return span.error is not None or span.error_type is not None


def _lacks_answer(span: TraceMember) -> bool:
    return _has_failed(span) or (span.output is None and span.span_type in ANSWERERS and not span.is_record)


def _tools_above(tree: Tree, span: TraceMember) -> set[str]:
    return {above for above in tree.above(span.span_id, _MAX_LEVELS) if tree.spans[above].span_type == "tool"}


def _end_ns(span: TraceMember) -> int:
    return max(span.start_ns, span.end_ns or 0)
