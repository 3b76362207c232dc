"""The meaning of traces that follows from columns alone: input, answer, session, user, and the usage of models."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from collector.conventions.columnar.forest import Forest, Mask, Places, first_of_each
from collector.conventions.feedback import FEEDBACK, STATE_INPUTS, STATE_OUTPUTS
from collector.conventions.member import answer_id
from collector.conventions.names import LAST_STEP_SCOPES
from collector.conventions.unanswered import ANSWERERS, ANSWERING, BLANKS
from storage.records import MAX_COUNT

_TALKING: Final = ("llm", "agent", "chain")
_AROUND: Final = ("agent", "chain")
_AMOUNTS: Final = ("input_tokens", "output_tokens", "cost_usd")


class SpanColumns:
    """Columns of spans in the order of a forest."""

    def __init__(self, spans: pa.Table, forest: Forest) -> None:
        self.forest = forest
        self._spans = spans
        self._order = pa.array(forest.rows)
        self.kinds = self._column("span_type").dictionary_encode()

    def _column(self, name: str) -> pa.Array:
        return self._spans.column(name).combine_chunks().take(self._order)

    def is_kind(self, *kinds: str) -> Mask:
        """Return a mask of the spans of these kinds."""
        matching = np.array([kind in kinds for kind in self.kinds.dictionary.to_pylist()], dtype=np.bool_)
        mask: Mask = matching[self.kinds.indices.to_numpy()]
        return mask

    def column(self, name: str) -> pa.Array:
        """Return a column."""
        return self._column(name)

    def texts_at(self, name: str, places: Places) -> pa.Array:
        """Return the values of a column at some positions; null for negative positions."""
        rows = pa.array(np.where(places < 0, 0, self.forest.rows[places]), mask=places < 0)
        return self._spans.column(name).take(rows).combine_chunks()

    def numbers(self, name: str) -> Places:
        """Return a column of times in nanoseconds; 0 for none."""
        values: Places = self._column(name).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return values

    def has(self, name: str) -> Mask:
        """Return a mask of the spans that have a value."""
        mask: Mask = self._spans.column(name).is_valid().to_numpy()[self.forest.rows]
        return mask


def sums(spans: SpanColumns) -> tuple[dict[str, pa.Array], Mask]:
    """Return the sums of each trace without its tool calls, and a mask of the traces to read one by one."""
    forest = spans.forest
    root = _roots(forest)
    talks = spans.is_kind(*_TALKING)
    order = np.arange(len(forest.rows))
    columns = {
        "input": _first_or(spans, root, "input", talks, order),
        "session_id": _first_or(spans, root, "session_id", None, order),
        "user_id": _first_or(spans, root, "user_id", None, order),
    }
    columns["final_response"], is_open = _final_response(spans, root)
    columns["finish_reason"] = _finish_reason(spans)
    columns["output"], is_request = _output(spans, root, columns["final_response"])
    is_open |= is_request
    for name in _AMOUNTS:
        columns[name], shares_ids = _amount(spans, name)
        is_open |= shares_ids
    is_open |= _with_blanks(spans) | forest.is_tangled | _may_double(spans) | _may_record(spans) | _of_last_steps(spans)
    return columns, is_open | _may_be_unanswered(spans) | _may_be_none(columns["input"], columns["output"])


def _may_be_unanswered(spans: SpanColumns) -> Mask:
    """Mark traces whose last answer requests tools, and in which a span failed, or a model or agent has no output."""
    forest, speaks = spans.forest, spans.has("output")
    failed = np.zeros(forest.traces, dtype=np.bool_)
    failed[forest.trace[spans.has("error") | spans.has("error_type") | (spans.is_kind(*ANSWERERS) & ~speaks)]] = True
    speaks &= failed[forest.trace]
    is_inner = _below_tools(spans, np.flatnonzero(speaks))
    last = np.full(forest.traces, -1, dtype=np.int64)
    for kinds in reversed(ANSWERING):
        for mask in (speaks, speaks & ~is_inner):
            at = first_of_each(forest, mask & spans.is_kind(*kinds), -np.arange(len(forest.rows)))
            last = np.where(at >= 0, at, last)
    return _ask(spans, last, failed)


def _below_tools(spans: SpanColumns, places: Places) -> Mask:
    """Mark the spans in `places` that are below a tool's span; in a tangled trace the result may be wrong."""
    forest, is_tool = spans.forest, spans.is_kind("tool")
    mask = np.zeros(len(forest.rows), dtype=np.bool_)
    above = forest.parent[places]
    for _ in range(int(forest.depth.max(initial=0))):
        is_here = above >= 0
        places, above = places[is_here], above[is_here]
        mask[places] |= is_tool[above]
        above = forest.parent[above]
    return mask


def _with_blanks(spans: SpanColumns) -> Mask:
    """Mark traces with a span whose input or output is blank: another span's text is used instead."""
    mask = np.zeros(spans.forest.traces, dtype=np.bool_)
    for name in ("input", "output"):
        is_blank = pc.equal(pc.utf8_trim(spans.column(name), BLANKS), "").fill_null(fill_value=False)
        mask[spans.forest.trace[is_blank.to_numpy(zero_copy_only=False)]] = True
    return mask


def _may_be_none(inputs: pa.Array, outputs: pa.Array) -> Mask:
    """Mark traces whose input is feedback on an answer, or whose input or output is the state of a workflow."""
    matches = pc.match_substring_regex(inputs, FEEDBACK)
    for texts, starts in ((inputs, STATE_INPUTS), (outputs, STATE_OUTPUTS)):
        for start in starts:
            matches = pc.or_kleene(matches, pc.starts_with(texts, start))
    mask: Mask = matches.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def _roots(forest: Forest) -> Places:
    root = first_of_each(forest, forest.is_root)
    top = first_of_each(forest, forest.parent < 0)
    return np.where(root >= 0, root, top)


def _output(spans: SpanColumns, root: Places, final_response: pa.Array) -> tuple[pa.Array, Mask]:
    """Return the output of the root or the topmost span, or the final response if its messages have no text.

    Also return a mask of the traces in which this output may only request tools, before later spans of models or
    agents.
    """
    forest, has = spans.forest, spans.has("output")
    order = -np.arange(len(forest.rows))
    topmost = first_of_each(forest, has & spans.is_kind(*_TALKING), order, forest.depth)
    is_believed = (root >= 0) & has[root] & ~_are_steps(spans, root)
    at = np.where(is_believed, root, np.where(topmost >= 0, topmost, root))
    has_words = spans.column("output_is_answer").fill_null(fill_value=True).to_numpy(zero_copy_only=False)
    is_wordless = (at >= 0) & (spans.has("output_messages") & ~has_words)[at]
    output = _take(spans.column("output"), at)
    trimmed, words = (pc.utf8_trim(texts, BLANKS) for texts in (output, final_response))
    is_alike = pc.equal(trimmed, words).fill_null(fill_value=False)
    gives_way = pc.or_(pa.array(is_wordless), is_alike)
    last = first_of_each(forest, has & spans.is_kind(*_TALKING), order)
    is_earlier = (at >= 0) & (last > at) & ~is_alike.to_numpy(zero_copy_only=False)
    chosen = pc.coalesce(pc.if_else(gives_way, final_response, output), output, final_response)
    return chosen, _ask(spans, at, is_earlier)


def _ask(spans: SpanColumns, places: Places, among: Mask) -> Mask:
    messages = spans.texts_at("output_messages", np.where(among, places, -1))
    mask: Mask = pc.match_substring(messages, '"tool_call"').fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def _are_steps(spans: SpanColumns, root: Places) -> Mask:
    """Return a mask of traces with several top spans, unless the root is an agent or a chain without a parent."""
    forest = spans.forest
    begun = np.bincount(forest.trace[forest.is_root], minlength=forest.traces)
    tops = np.bincount(forest.trace[forest.parent < 0], minlength=forest.traces)
    is_around = (root >= 0) & (forest.is_root & spans.is_kind(*_AROUND))[root]
    return ~is_around & (np.where(begun > 0, begun, tops) > 1)


def _first_or(spans: SpanColumns, root: Places, name: str, among: Mask | None, order: Places) -> pa.Array:
    """Return the root's value, else that of the topmost span in `among`, or of the first span if `among` is None."""
    forest, has = spans.forest, spans.has(name)
    mask = has if among is None else has & among
    keys = (order,) if among is None else (order, forest.depth)
    others = first_of_each(forest, mask, *keys)
    return _take(spans.column(name), np.where((root >= 0) & has[root], root, others))


def _final_response(spans: SpanColumns, root: Places) -> tuple[pa.Array, Mask]:
    """Return a model's last text; without one, that of an agent or a chain, then of a span of kind `other`.

    Else it is the root's output, unless that is made of messages. Also return a mask of the traces to read one by
    one: it is in messages only, or a request for tools may follow.
    """
    forest, column = spans.forest, spans.column("output_is_answer")
    answers = column.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    is_open = ~spans.has("output_is_answer") & spans.has("output_messages")
    last = np.full(forest.traces, -1, dtype=np.int64)
    order = np.arange(len(forest.rows))
    for kinds in reversed(ANSWERING):
        of_kinds = first_of_each(forest, (answers | is_open) & spans.is_kind(*kinds), -order)
        last = np.where(of_kinds >= 0, of_kinds, last)
    of_root = (root >= 0) & (spans.is_kind(*_TALKING) & ~spans.has("output_messages"))[root]
    at = np.where(last >= 0, last, np.where(of_root, root, -1))
    speaks = first_of_each(forest, spans.has("output_messages") & spans.is_kind(*sum(ANSWERING, ())), -order)
    return _take(spans.column("output"), at), (last >= 0) & (is_open[last] | _ask(spans, last, speaks > last))


def _finish_reason(spans: SpanColumns) -> pa.Array:
    """Return the last finish reason of a model; else of an agent or a chain, then of a span of kind `other`."""
    forest, has = spans.forest, spans.has("finish_reason")
    last = np.full(forest.traces, -1, dtype=np.int64)
    for kinds in reversed(ANSWERING) if has.any() else ():
        of_kinds = first_of_each(forest, has & spans.is_kind(*kinds), -np.arange(len(forest.rows)))
        last = np.where(of_kinds >= 0, of_kinds, last)
    return spans.texts_at("finish_reason", last)


def _amount(spans: SpanColumns, name: str) -> tuple[pa.Array, Mask]:
    """Sum the amounts of spans that have none below them; mark traces in which two such spans share a response id."""
    forest = spans.forest
    column = spans.column(name)
    tells = column.is_valid().to_numpy(zero_copy_only=False)
    if name == "cost_usd":
        tells = _telling_costs(spans, tells)
    if not tells.any():
        return pa.nulls(forest.traces, column.type), np.zeros(forest.traces, dtype=np.bool_)
    counted = np.flatnonzero(tells & ~_repeating(spans, tells))
    values = column.fill_null(0).to_numpy(zero_copy_only=False)[counted]
    total = np.zeros(forest.traces, dtype=values.dtype)
    np.add.at(total, forest.trace[counted], values)
    is_known = np.zeros(forest.traces, dtype=np.bool_)
    is_known[forest.trace[counted]] = True
    if name != "cost_usd":
        # Values of an earlier edition may have 64 bits: doubles show whether the sum of integers overflowed.
        rough = np.bincount(forest.trace[counted], weights=values.astype(np.float64), minlength=forest.traces)
        is_known &= (rough <= 2 * MAX_COUNT) & (total <= MAX_COUNT)
    return pa.array(total, mask=~is_known), _share_ids(spans, counted)


def _share_ids(spans: SpanColumns, places: Places) -> Mask:
    """Mark traces in which two of some spans have one response id."""
    forest = spans.forest
    mask = np.zeros(forest.traces, dtype=np.bool_)
    ids = spans.column("response_id").dictionary_encode()
    codes = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)[places]
    keys = np.sort(forest.trace[places][codes >= 0] * len(ids.dictionary) + codes[codes >= 0])
    traces, again = np.divmod(keys[1:][keys[1:] == keys[:-1]], max(len(ids.dictionary), 1))
    real = [code for code in np.unique(again).tolist() if answer_id(ids.dictionary[code].as_py()) is not None]
    mask[traces[np.isin(again, real)]] = True
    return mask


def _telling_costs(spans: SpanColumns, tells: Mask) -> Mask:
    """Return a mask of the costs that count: if a trace has reported costs, computed ones do not."""
    trace = spans.forest.trace
    is_own = tells & ~spans.has("cost_source")
    tells_itself = np.zeros(spans.forest.traces, dtype=np.bool_)
    tells_itself[trace[is_own]] = True
    return is_own | (tells & ~tells_itself[trace])


def _of_last_steps(spans: SpanColumns) -> Mask:
    """Return a mask of traces with libraries whose model spans have only the last of several calls."""
    mask = np.zeros(spans.forest.traces, dtype=np.bool_)
    scopes = spans.column("scope_name").dictionary_encode()
    matching = np.array([(name or "").startswith(LAST_STEP_SCOPES) for name in scopes.dictionary.to_pylist()], np.bool_)
    if matching.any():
        numbers = scopes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        mask[spans.forest.trace[(numbers >= 0) & matching[numbers]]] = True
    return mask


def _may_double(spans: SpanColumns) -> Mask:
    """Return a mask of traces in which model spans of two libraries have equal token counts."""
    forest = spans.forest
    mask = np.zeros(forest.traces, dtype=np.bool_)
    at = np.flatnonzero(spans.is_kind("llm") & spans.has("input_tokens") & spans.has("output_tokens"))
    if len(at) < 2:  # noqa: PLR2004 - a pair
        return mask
    scopes = spans.column("scope_name").dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)[at]
    if (scopes == scopes[0]).all():
        return mask
    amounts = [spans.column(name).to_numpy(zero_copy_only=False)[at] for name in ("input_tokens", "output_tokens")]
    keys = np.stack([forest.trace[at], *amounts, scopes]).astype(np.int64)
    keys = keys[:, np.lexsort(keys[::-1])]
    is_alike = (keys[:3, 1:] == keys[:3, :-1]).all(axis=0) & (keys[3, 1:] != keys[3, :-1])
    mask[keys[0, 1:][is_alike]] = True
    return mask


def _may_record(spans: SpanColumns) -> Mask:
    """Mark traces with a span that may only record what a call used."""
    mask = np.zeros(spans.forest.traces, dtype=np.bool_)
    is_answer = spans.column("output_is_answer").fill_null(fill_value=True).to_numpy(zero_copy_only=False)
    is_record = (spans.is_kind("llm") & ~is_answer) | spans.is_kind("other")
    is_record &= spans.has("input_tokens") | spans.has("output_tokens")
    for name in ("input", "output", "input_messages", "output_messages") if is_record.any() else ():
        is_record &= ~spans.has(name)
    mask[spans.forest.trace[is_record]] = True
    return mask


def _repeating(spans: SpanColumns, tells: Mask) -> Mask:
    """Return a mask of ancestors of spans with amounts, which repeat these amounts.

    A model's span does not repeat those of models that its tools called.
    """
    forest = spans.forest
    is_tool, is_model = spans.is_kind("tool"), spans.is_kind("llm")
    mask = np.zeros(len(tells), dtype=np.bool_)
    passed = np.zeros((2, len(tells)), dtype=np.bool_)
    at = np.flatnonzero(tells)
    within = is_tool[at]
    while len(at):
        above = forest.parent[at]
        is_here = above >= 0
        above, within = above[is_here], within[is_here]
        is_new = ~passed[within.astype(np.int64), above]
        above, within = above[is_new], within[is_new]
        passed[within.astype(np.int64), above] = True
        mask[above[~(within & is_model[above])]] = True
        at, within = above, within | is_tool[above]
    return mask


def _take(column: pa.Array, places: Places) -> pa.Array:
    return column.take(pa.array(places, mask=places < 0))
