"""Pairing of tool runs with requested calls: by call id, else by place, name, order and arguments.

If more than one pairing is possible the run has no call id: none is made up.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from collector.conventions.member import TraceMember
from collector.conventions.message_calls import MessageCall, lone_value
from collector.conventions.parts import ITEM_IDS
from collector.conventions.tree import Tree
from storage.records import JsonValue

_MAX_LEVELS = 16  # a guess: spans between a tool and the agent whose model requested it; beyond, the whole trace
_WHOLE_TRACE = ""
_MAX_ALIKE = 32  # a guess: calls of one name that are compared with a run one by one
_ANY = "*"
_Bucket = tuple[str, str, str]  # an ancestor of the model's span, the tool's name, the arguments as far as known


def is_blank_result(result: JsonValue) -> bool:
    """Return whether another source may know more than this result: it is missing, null or blank."""
    return result is None or (isinstance(result, str) and not result.strip())


@dataclass(slots=True, kw_only=True, eq=False)
class ReportedRun:
    """One run of a tool, by its own span."""

    span: TraceMember
    key: str | None  # digest of its arguments; None if unknown
    call_id: str | None
    request: MessageCall | None = None
    is_ambiguous: bool = False  # several calls could be meant
    is_again: bool = False  # another execution of the same call was before it
    repeats: list[TraceMember] = field(default_factory=list)  # other spans that report this run

    def is_over_before(self, other: "ReportedRun") -> bool:
        """Return whether, in spans of the other run's library, this run ended before the other one started."""
        mine = (span for span in self.repeats if span.scope == other.span.scope)
        return any(span.end_ns is not None and span.end_ns <= other.span.start_ns for span in mine)

    def learn_call(self, other: "ReportedRun") -> None:
        """Copy the call's id, name and arguments, but not its result, from a wrapper's run of several executions."""
        call = replace(other.span, tool_result=None, has_result=False, error=None, error_type=None)
        self.learn(ReportedRun(span=call, key=other.key, call_id=other.call_id))

    def learn(self, other: "ReportedRun") -> None:
        """Add what another span of the same run has and this one lacks."""
        mine, theirs = self.span, other.span
        self.repeats.append(theirs)
        self.call_id = self.call_id or other.call_id
        is_fuller = mine.tool_arguments is None or (
            isinstance(mine.tool_arguments, str) and isinstance(theirs.tool_arguments, dict)
        )
        self.key = other.key if is_fuller else self.key
        self.span = replace(
            mine,
            arguments=theirs.tool_arguments if is_fuller else mine.tool_arguments,
            has_stored_arguments=False,
            tool_result=theirs.tool_result if is_blank_result(mine.tool_result) else mine.tool_result,
            has_result=mine.has_result or theirs.has_result,
            error=theirs.error if mine.error is None else mine.error,
            error_type=theirs.error_type if mine.error_type is None else mine.error_type,
        )


@dataclass(slots=True, eq=False)
class _Book:
    """The calls that are not yet paired with a run."""

    buckets: dict[_Bucket, list[MessageCall]] = field(default_factory=dict)
    taken: set[int] = field(default_factory=set)
    heads: dict[_Bucket, int] = field(default_factory=dict)  # index in a bucket; all calls before it are taken

    def free(self, bucket: _Bucket, limit: int, start_ns: int, *, is_history: bool) -> list[MessageCall]:
        """Return up to `limit` free calls of a bucket to which a run that began at `start_ns` can belong."""
        calls = self.buckets.get(bucket)
        if calls is None:
            return []
        head = self.heads.get(bucket, 0)
        while head < len(calls) and id(calls[head]) in self.taken:
            head += 1
        self.heads[bucket] = head
        free_calls: list[MessageCall] = []
        for call in itertools.islice(calls, head, None):
            if not is_history and call.start_ns > start_ns:
                break
            if id(call) not in self.taken and _can_begin(call, start_ns, is_history=is_history):
                free_calls.append(call)
                if len(free_calls) == limit:
                    break
        return free_calls


def pair(
    tree: Tree, runs: list[ReportedRun], requests: list[MessageCall], *, is_history: bool = False
) -> list[MessageCall]:
    """Pair each run with its call; return the calls without a run."""
    book = _Book()
    _pair_by_id(book, runs, requests)
    free = [call for call in requests if id(call) not in book.taken]
    if free and any(_is_open(run) for run in runs):
        _fill(tree, book, free)
        for group in _groups(tree, book, [run for run in runs if _is_open(run)]):
            _pair_equal(tree, book, group, is_history=is_history)
        for run in runs:
            if _is_open(run):
                _pair_alike(tree, book, run, is_history=is_history)
    return [call for call in requests if id(call) not in book.taken]


def pair_across_ids(
    tree: Tree, runs: list[ReportedRun], requests: list[MessageCall], *, is_history: bool = False
) -> list[MessageCall]:
    """Pair runs whose id no call has with calls of their name and arguments, in order; return the calls left over.

    Some frameworks give runs ids of their own; some calls appear under their item id in one place, and under their call
    id in another.
    """
    waiting = [run for run in runs if run.request is None and not run.is_ambiguous]
    if not waiting or not requests:
        return requests
    book = _Book()
    _fill(tree, book, requests)
    for group in _groups(tree, book, waiting):
        _pair_in_order(tree, book, group, is_history=is_history)
    for run in waiting:
        if run.request is None:
            _pair_alike(tree, book, run, is_history=is_history)
    left = [call for call in requests if id(call) not in book.taken]
    return _pair_by_name([run for run in waiting if run.request is None], left, is_history=is_history)


def _pair_in_order(tree: Tree, book: _Book, group: list[ReportedRun], *, is_history: bool) -> None:
    name, form = group[0].span.tool_name or "", _form(group[0])
    start_ns = group[0 if is_history else -1].span.start_ns
    for level in _levels(tree, group[0]):
        calls = book.free((level, name, form), len(group), start_ns, is_history=is_history)
        for run, call in zip(group, calls, strict=False):
            _join(book, run, call)
        if calls:
            return


def _pair_by_name(runs: list[ReportedRun], requests: list[MessageCall], *, is_history: bool) -> list[MessageCall]:
    """Pair the rest by name and order, if there are as many runs of a name as calls and one side has no ids."""
    by_name: dict[str, tuple[list[ReportedRun], list[MessageCall]]] = {}
    for run in runs:
        by_name.setdefault(run.span.tool_name or "", ([], []))[0].append(run)
    for call in requests:
        if call.name in by_name:
            by_name[call.name][1].append(call)
    book = _Book()
    for named_runs, calls in by_name.values():
        has_no_ids = all(run.call_id is None for run in named_runs) or all(call.call_id is None for call in calls)
        if len(named_runs) == len(calls) and has_no_ids:
            pairs = list(zip(named_runs, calls, strict=True))
            if all(_can_be(run, call, is_history=is_history) for run, call in pairs):
                for run, call in pairs:
                    _join(book, run, call)
    return [call for call in requests if id(call) not in book.taken]


def _can_begin(call: MessageCall, start_ns: int, *, is_history: bool) -> bool:
    if is_history:
        return call.response is None or call.start_ns >= start_ns
    return call.start_ns <= start_ns


def _can_be(run: ReportedRun, call: MessageCall, *, is_history: bool) -> bool:
    """Return True unless the start or an argument shows that a run is not of a call."""
    requested, ran = call.arguments, run.span.tool_arguments
    if not _can_begin(call, run.span.start_ns, is_history=is_history):
        return False
    if not isinstance(requested, dict) or not isinstance(ran, dict):
        return True
    return all(requested[name] == ran[name] for name in requested.keys() & ran.keys())


def _join(book: _Book, run: ReportedRun, call: MessageCall) -> None:
    """Join a run and its call; the id from the model counts, unless it is an item's."""
    run.request = call
    is_real = call.call_id is not None and not call.call_id.startswith(ITEM_IDS)
    if is_real or run.call_id is None or run.call_id.startswith(ITEM_IDS):
        run.call_id = call.call_id or run.call_id
    book.taken.add(id(call))


def _is_open(run: ReportedRun) -> bool:
    return run.call_id is None and run.request is None and not run.is_ambiguous


def _pair_by_id(book: _Book, runs: list[ReportedRun], requests: list[MessageCall]) -> None:
    """Join by id alone, unless both name and arguments differ: some models number their calls from 0 in each answer."""
    by_id: dict[str, list[MessageCall]] = {}
    for call in requests:
        if call.call_id is not None:
            by_id.setdefault(call.call_id, []).append(call)
    for run in runs:
        calls = [call for call in by_id.get(run.call_id or "", ()) if id(call) not in book.taken]
        name = run.span.tool_name
        likeness = [(call.key == run.key) + (call.name == name) + (run.key is None) for call in calls]
        best = max(likeness, default=0)
        if best:
            run.request = calls[likeness.index(best)]
            book.taken.add(id(run.request))


def _fill(tree: Tree, book: _Book, calls: list[MessageCall]) -> None:
    for call in sorted(calls, key=lambda call: call.start_ns):
        forms = [f"={call.key}", _ANY]
        lone = lone_value(call.arguments)
        if lone is not None:
            forms.append(f"~{lone}")
        for level in (call.span_id, *tree.above(call.span_id, _MAX_LEVELS), _WHOLE_TRACE):
            for form in forms:
                book.buckets.setdefault((level, call.name, form), []).append(call)


def _form(run: ReportedRun) -> str:
    arguments = run.span.tool_arguments
    if arguments is None:
        return _ANY
    return f"~{arguments}" if isinstance(arguments, str) else f"={run.key}"


def _groups(tree: Tree, book: _Book, runs: Sequence[ReportedRun]) -> Iterator[list[ReportedRun]]:
    """Yield groups of interchangeable runs: with equal names and arguments, and the same nearest bucket of calls.

    LlamaIndex puts each of several parallel runs below a step of its own.
    """
    groups: dict[_Bucket | None, list[ReportedRun]] = {}
    for run in runs:
        buckets = ((level, run.span.tool_name or "", _form(run)) for level in _levels(tree, run))
        groups.setdefault(next((bucket for bucket in buckets if bucket in book.buckets), None), []).append(run)
    groups.pop(None, None)
    yield from groups.values()


def _levels(tree: Tree, run: ReportedRun) -> Iterator[str]:
    yield from tree.above(run.span.span_id, _MAX_LEVELS)
    yield _WHOLE_TRACE


def _pair_equal(tree: Tree, book: _Book, group: list[ReportedRun], *, is_history: bool) -> None:
    """Pair runs with calls of equal arguments below the nearest common ancestor, in order.

    If their numbers differ, the runs are ambiguous.
    """
    name, form = group[0].span.tool_name or "", _form(group[0])
    start_ns = group[0 if is_history else -1].span.start_ns
    for level in _levels(tree, group[0]):
        calls = book.free((level, name, form), len(group) + 1, start_ns, is_history=is_history)
        if not calls:
            continue
        if len(calls) == len(group):
            for run, call in zip(group, calls, strict=True):
                run.request, run.call_id = call, call.call_id
        else:
            for run in group:
                run.is_ambiguous = True
            for call in calls:
                call.call_id = None
        book.taken.update(id(call) for call in calls[: len(group)])
        return


def _pair_alike(tree: Tree, book: _Book, run: ReportedRun, *, is_history: bool) -> None:
    """Pair a run with the only call of its name whose arguments can be the same."""
    for level in _levels(tree, run):
        bucket = level, run.span.tool_name or "", _ANY
        calls = book.free(bucket, _MAX_ALIKE, run.span.start_ns, is_history=is_history)
        alike = [call for call in calls if _fit(call.arguments, run.span.tool_arguments)]
        if len(alike) == 1 and len(calls) < _MAX_ALIKE:
            _join(book, run, alike[0])
        if alike:
            return


def _fit(requested: JsonValue, ran: JsonValue) -> bool:
    """Return True if call and run can have the same arguments: a framework adds defaults and drops nulls."""
    if requested is None or ran is None or isinstance(requested, str) or isinstance(ran, str):
        return True
    if isinstance(requested, dict) and isinstance(ran, dict):
        shared = requested.keys() & ran.keys()
        return (shared == requested.keys() or shared == ran.keys()) and all(
            requested[key] == ran[key] for key in shared
        )
    return requested == ran
