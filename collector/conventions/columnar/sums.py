"""What traces mean that follows from columns alone: input, answer, session, user, and what the calls of models used."""

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
        """Which spans are of a kind."""
        wanted = np.array([kind in kinds for kind in self.kinds.dictionary.to_pylist()], dtype=np.bool_)
        mask: Mask = wanted[self.kinds.indices.to_numpy()]
        return mask

    def column(self, name: str) -> pa.Array:
        """A column."""
        return self._column(name)

    def texts_at(self, name: str, places: Places) -> pa.Array:
        """Return the values of a column at some places alone, null at places below 0."""
        rows = pa.array(np.where(places < 0, 0, self.forest.rows[places]), mask=places < 0)
        return self._spans.column(name).take(rows).combine_chunks()

    def numbers(self, name: str) -> Places:
        """A column of times as nanoseconds; 0 for none."""
        found: Places = self._column(name).cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        return found

    def has(self, name: str) -> Mask:
        """Which spans tell something."""
        mask: Mask = self._spans.column(name).is_valid().to_numpy()[self.forest.rows]
        return mask


def sums(told: SpanColumns) -> tuple[dict[str, pa.Array], Mask]:
    """Of each trace what is told of it, but for its calls of tools; and which traces have to be taken one by one."""
    forest = told.forest
    root = _roots(forest)
    talks = told.is_kind(*_TALKING)
    order = np.arange(len(forest.rows))
    found = {
        "input": _first_or(told, root, "input", talks, order),
        "session_id": _first_or(told, root, "session_id", None, order),
        "user_id": _first_or(told, root, "user_id", None, order),
    }
    found["final_response"], is_open = _final_response(told, root)
    found["finish_reason"] = _finish_reason(told)
    found["output"], is_request = _output(told, root, found["final_response"])
    is_open |= is_request
    for name in _AMOUNTS:
        found[name], shares_ids = _amount(told, name)
        is_open |= shares_ids
    is_open |= _with_blanks(told) | forest.is_tangled | _may_double(told) | _may_record(told) | _of_last_steps(told)
    return found, is_open | _may_be_unanswered(told) | _may_be_none(found["input"], found["output"])


def _may_be_unanswered(spans: SpanColumns) -> Mask:
    """Mark traces whose last answer asks for tools if any span failed, or a model or an agent told nothing."""
    forest, speaks = spans.forest, spans.has("output")
    found = np.zeros(forest.traces, dtype=np.bool_)
    found[forest.trace[spans.has("error") | spans.has("error_type") | (spans.is_kind(*ANSWERERS) & ~speaks)]] = True
    speaks &= found[forest.trace]
    is_inner = _below_tools(spans, np.flatnonzero(speaks))
    last = np.full(forest.traces, -1, dtype=np.int64)
    for kinds in reversed(ANSWERING):
        for mask in (speaks, speaks & ~is_inner):
            at = first_of_each(forest, mask & spans.is_kind(*kinds), -np.arange(len(forest.rows)))
            last = np.where(at >= 0, at, last)
    return _ask(spans, last, found)


def _below_tools(spans: SpanColumns, places: Places) -> Mask:
    """Mark those of some spans that are below a tool's; in a tangled trace maybe others."""
    forest, is_tool = spans.forest, spans.is_kind("tool")
    found = np.zeros(len(forest.rows), dtype=np.bool_)
    above = forest.parent[places]
    for _ in range(int(forest.depth.max(initial=0))):
        is_here = above >= 0
        places, above = places[is_here], above[is_here]
        found[places] |= is_tool[above]
        above = forest.parent[above]
    return found


def _with_blanks(told: SpanColumns) -> Mask:
    """Mark traces with a span whose input or output is blank, because it gives way to those of other spans."""
    found = np.zeros(told.forest.traces, dtype=np.bool_)
    for name in ("input", "output"):
        is_blank = pc.equal(pc.utf8_trim(told.column(name), BLANKS), "").fill_null(fill_value=False)
        found[told.forest.trace[is_blank.to_numpy(zero_copy_only=False)]] = True
    return found


def _may_be_none(inputs: pa.Array, outputs: pa.Array) -> Mask:
    """Mark traces whose input is feedback on an answer, or whose input or output is the state of a workflow."""
    found = pc.match_substring_regex(inputs, FEEDBACK)
    for texts, starts in ((inputs, STATE_INPUTS), (outputs, STATE_OUTPUTS)):
        for start in starts:
            found = pc.or_kleene(found, pc.starts_with(texts, start))
    mask: Mask = found.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return mask


def _roots(forest: Forest) -> Places:
    """The first span without a parent; where none came, the first whose parent did not come."""
    root = first_of_each(forest, forest.is_root)
    top = first_of_each(forest, forest.parent < 0)
    return np.where(root >= 0, root, top)


def _output(told: SpanColumns, root: Places, final_response: pa.Array) -> tuple[pa.Array, Mask]:
    """Return what the root or the topmost span tells; messages without words give way to the last words.

    And in which traces that may be a request for tools, with spans of models or agents after it.
    """
    forest, has = told.forest, told.has("output")
    order = -np.arange(len(forest.rows))
    topmost = first_of_each(forest, has & told.is_kind(*_TALKING), order, forest.depth)
    is_believed = (root >= 0) & has[root] & ~_are_steps(told, root)
    at = np.where(is_believed, root, np.where(topmost >= 0, topmost, root))
    has_words = told.column("output_is_answer").fill_null(fill_value=True).to_numpy(zero_copy_only=False)
    is_wordless = (at >= 0) & (told.has("output_messages") & ~has_words)[at]
    output = _take(told.column("output"), at)
    trimmed, words = (pc.utf8_trim(texts, BLANKS) for texts in (output, final_response))
    is_alike = pc.equal(trimmed, words).fill_null(fill_value=False)
    gives_way = pc.or_(pa.array(is_wordless), is_alike)
    last = first_of_each(forest, has & told.is_kind(*_TALKING), order)
    is_earlier = (at >= 0) & (last > at) & ~is_alike.to_numpy(zero_copy_only=False)
    chosen = pc.coalesce(pc.if_else(gives_way, final_response, output), output, final_response)
    return chosen, _ask(told, at, is_earlier)


def _ask(spans: SpanColumns, places: Places, among: Mask) -> Mask:
    """Mark those of some traces whose span at its place may ask for tools."""
    messages = spans.texts_at("output_messages", np.where(among, places, -1))
    found: Mask = pc.match_substring(messages, '"tool_call"').fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    return found


def _are_steps(told: SpanColumns, root: Places) -> Mask:
    """Of which traces other spans stand beside the root, which is no agent or chain that began the trace."""
    forest = told.forest
    begun = np.bincount(forest.trace[forest.is_root], minlength=forest.traces)
    tops = np.bincount(forest.trace[forest.parent < 0], minlength=forest.traces)
    is_around = (root >= 0) & (forest.is_root & told.is_kind(*_AROUND))[root]
    return ~is_around & (np.where(begun > 0, begun, tops) > 1)


def _first_or(told: SpanColumns, root: Places, name: str, among: Mask | None, order: Places) -> pa.Array:
    """What the root tells, else the topmost of some spans, or the first of all, that tells it."""
    forest, has = told.forest, told.has(name)
    mask = has if among is None else has & among
    keys = (order,) if among is None else (order, forest.depth)
    others = first_of_each(forest, mask, *keys)
    return _take(told.column(name), np.where((root >= 0) & has[root], root, others))


def _final_response(told: SpanColumns, root: Places) -> tuple[pa.Array, Mask]:
    """The last words of a model; where no model's span tells any, those of an agent, then of any other span.

    Else it is the root's output, unless that is made of messages. And of which traces they are in messages only.
    """
    forest, column = told.forest, told.column("output_is_answer")
    answers = column.fill_null(fill_value=False).to_numpy(zero_copy_only=False)
    is_open = ~told.has("output_is_answer") & told.has("output_messages")
    last = np.full(forest.traces, -1, dtype=np.int64)
    order = np.arange(len(forest.rows))
    for kinds in reversed(ANSWERING):
        of_kinds = first_of_each(forest, (answers | is_open) & told.is_kind(*kinds), -order)
        last = np.where(of_kinds >= 0, of_kinds, last)
    of_root = (root >= 0) & (told.is_kind(*_TALKING) & ~told.has("output_messages"))[root]
    at = np.where(last >= 0, last, np.where(of_root, root, -1))
    speaks = first_of_each(forest, told.has("output_messages") & told.is_kind(*sum(ANSWERING, ())), -order)
    return _take(told.column("output"), at), (last >= 0) & (is_open[last] | _ask(told, last, speaks > last))


def _finish_reason(told: SpanColumns) -> pa.Array:
    """Return why the last answer of a model ended that tells it; else that of an agent, then of any other span."""
    forest, has = told.forest, told.has("finish_reason")
    last = np.full(forest.traces, -1, dtype=np.int64)
    for kinds in reversed(ANSWERING) if has.any() else ():
        of_kinds = first_of_each(forest, has & told.is_kind(*kinds), -np.arange(len(forest.rows)))
        last = np.where(of_kinds >= 0, of_kinds, last)
    return told.texts_at("finish_reason", last)


def _amount(told: SpanColumns, name: str) -> tuple[pa.Array, Mask]:
    """Return what spans with nothing of it below them tell, and in which traces two of them have one response id."""
    forest = told.forest
    column = told.column(name)
    tells = column.is_valid().to_numpy(zero_copy_only=False)
    if name == "cost_usd":
        tells = _telling_costs(told, tells)
    if not tells.any():
        return pa.nulls(forest.traces, column.type), np.zeros(forest.traces, dtype=np.bool_)
    counted = np.flatnonzero(tells & ~_repeating(told, tells))
    values = column.fill_null(0).to_numpy(zero_copy_only=False)[counted]
    total = np.zeros(forest.traces, dtype=values.dtype)
    np.add.at(total, forest.trace[counted], values)
    is_told = np.zeros(forest.traces, dtype=np.bool_)
    is_told[forest.trace[counted]] = True
    if name != "cost_usd":
        # What an earlier edition read may be as large as 64 bits: doubles tell if the whole numbers wrapped.
        rough = np.bincount(forest.trace[counted], weights=values.astype(np.float64), minlength=forest.traces)
        is_told &= (rough <= 2 * MAX_COUNT) & (total <= MAX_COUNT)
    return pa.array(total, mask=~is_told), _share_ids(told, counted)


def _share_ids(told: SpanColumns, places: Places) -> Mask:
    """Mark traces in which two of some spans have one response id."""
    forest = told.forest
    found = np.zeros(forest.traces, dtype=np.bool_)
    ids = told.column("response_id").dictionary_encode()
    codes = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)[places]
    keys = np.sort(forest.trace[places][codes >= 0] * len(ids.dictionary) + codes[codes >= 0])
    traces, again = np.divmod(keys[1:][keys[1:] == keys[:-1]], max(len(ids.dictionary), 1))
    real = [code for code in np.unique(again).tolist() if answer_id(ids.dictionary[code].as_py()) is not None]
    found[traces[np.isin(again, real)]] = True
    return found


def _telling_costs(told: SpanColumns, tells: Mask) -> Mask:
    """Of the spans with a cost those that count: where a trace tells any itself, what was computed does not."""
    trace = told.forest.trace
    is_told = tells & ~told.has("cost_source")
    tells_itself = np.zeros(told.forest.traces, dtype=np.bool_)
    tells_itself[trace[is_told]] = True
    return is_told | (tells & ~tells_itself[trace])


def _of_last_steps(told: SpanColumns) -> Mask:
    """The traces with spans of libraries whose models' spans tell the last of several calls alone."""
    found = np.zeros(told.forest.traces, dtype=np.bool_)
    scopes = told.column("scope_name").dictionary_encode()
    wanted = np.array([(name or "").startswith(LAST_STEP_SCOPES) for name in scopes.dictionary.to_pylist()], np.bool_)
    if wanted.any():
        numbers = scopes.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        found[told.forest.trace[(numbers >= 0) & wanted[numbers]]] = True
    return found


def _may_double(told: SpanColumns) -> Mask:
    """The traces in which spans of models that are of two libraries tell as many tokens."""
    forest = told.forest
    found = np.zeros(forest.traces, dtype=np.bool_)
    at = np.flatnonzero(told.is_kind("llm") & told.has("input_tokens") & told.has("output_tokens"))
    if len(at) < 2:  # noqa: PLR2004 - a pair
        return found
    scopes = told.column("scope_name").dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)[at]
    if (scopes == scopes[0]).all():
        return found
    amounts = [told.column(name).to_numpy(zero_copy_only=False)[at] for name in ("input_tokens", "output_tokens")]
    keys = np.stack([forest.trace[at], *amounts, scopes]).astype(np.int64)
    keys = keys[:, np.lexsort(keys[::-1])]
    is_alike = (keys[:3, 1:] == keys[:3, :-1]).all(axis=0) & (keys[3, 1:] != keys[3, :-1])
    found[keys[0, 1:][is_alike]] = True
    return found


def _may_record(told: SpanColumns) -> Mask:
    """Mark traces with a span that may only record what a call used."""
    found = np.zeros(told.forest.traces, dtype=np.bool_)
    is_answer = told.column("output_is_answer").fill_null(fill_value=True).to_numpy(zero_copy_only=False)
    is_record = (told.is_kind("llm") & ~is_answer) | told.is_kind("other")
    is_record &= told.has("input_tokens") | told.has("output_tokens")
    for name in ("input", "output", "input_messages", "output_messages") if is_record.any() else ():
        is_record &= ~told.has(name)
    found[told.forest.trace[is_record]] = True
    return found


def _repeating(told: SpanColumns, tells: Mask) -> Mask:
    """The spans above those that tell something; a model's span does not repeat what its tools' models do."""
    forest = told.forest
    is_tool, is_model = told.is_kind("tool"), told.is_kind("llm")
    found = np.zeros(len(tells), dtype=np.bool_)
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
        found[above[~(within & is_model[above])]] = True
        at, within = above, within | is_tool[above]
    return found


def _take(column: pa.Array, places: Places) -> pa.Array:
    return column.take(pa.array(places, mask=places < 0))
