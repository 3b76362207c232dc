"""Which spans tell of a call of a model that another library tells of, too, side by side with it."""

from collector.conventions.member import TraceMember
from collector.conventions.tree import Tree

_MAX_NEAR = 8  # a guess: calls of as many tokens in a trace that are compared with one
_TOLERANCE_NS = 50_000_000  # a guess: how much later a library that is called back can notice an end


def doubled(tree: Tree) -> dict[str, str]:
    """The spans that tell a call of a model again, each with the one that tells it first.

    They are of another library, one lies within the time of the other, and both tell as many tokens and one model.
    Of two calls with ids of their own, neither is the other.
    """
    alike: dict[tuple[int, int], list[TraceMember]] = {}
    for span in tree.spans.values():
        if span.span_type == "llm" and span.input_tokens is not None and span.output_tokens is not None:
            alike.setdefault((span.input_tokens, span.output_tokens), []).append(span)
    found: dict[str, str] = {}
    for spans in alike.values():
        for at, span in enumerate(spans[1:], 1):
            same = next((one for one in spans[max(0, at - _MAX_NEAR) : at] if _is_same(tree, one, span)), None)
            if same is not None:
                found[span.span_id] = found.get(same.span_id, same.span_id)
    return found


def _is_same(tree: Tree, first: TraceMember, span: TraceMember) -> bool:
    if first.scope == span.scope or tree.is_below(span.span_id, first.span_id):
        return False
    if first.response_id and span.response_id:
        return first.response_id == span.response_id
    begins = sorted((one.model or "" for one in (first, span)), key=len)
    is_model = begins[1].startswith(begins[0])
    end_ns = max(first.start_ns, first.end_ns or 0) + _TOLERANCE_NS
    return is_model and span.start_ns <= end_ns and (span.end_ns or 0) <= end_ns
