"""The output of the command line."""

import csv
import io
import itertools
import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.cells import cell_len
from rich.console import Console

from collector.api.base.times import instant_ns, time_text
from collector.api.responses.alerting import StreamDocument
from collector.api.responses.traces import LinkDocument, SpanDocument, SpanEventDocument, TraceDocument
from collector.cli import render
from collector.cli.monitor_text import print_monitors
from collector.cli.responses import parse_response
from collector.cli.text import crop, fold, json_text
from collector.cli.trace_text import ASCII, MAX_ITEMS, TEXT_LINES, trace_text
from collector.cli.views import TableView
from collector.escaping import one_line
from collector.span_tree import Placement, in_tree_order
from collector.units import count_text, duration_text, instant_text, offset_text
from tests.wiring import a_document

START_NS = 1_795_255_200_000_000_000  # 2026-11-21T10:00:00Z
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \x9b31m [red]markup[/red] :bomb: \u202egnp.exe \u2028 \r\x00 \ud800 \U000e0041"


def a_span(
    span_id: str = "a",
    parent: str | None = None,
    *,
    name: str | None = None,
    at_ms: int = 0,
    duration_ms: float | None = 5,
    status: tuple[str, str] = ("UNSET", ""),
    texts: tuple[str | None, str | None] = (None, None),
    events: tuple[SpanEventDocument, ...] = (),
    links: tuple[LinkDocument, ...] = (),
) -> SpanDocument:
    """Build a span with what the test is about."""
    return a_document(
        SpanDocument,
        span_type="other",
        span_id=span_id,
        parent_span_id=parent,
        name=name or f"span {span_id}",
        kind="INTERNAL",
        start_time=time_text(START_NS + at_ms * 1_000_000),
        duration_ms=duration_ms,
        status_code=status[0],
        status_message=status[1],
        input=texts[0],
        output=texts[1],
        events=list(events),
        links=list(links),
    )


def a_trace(*spans: SpanDocument, name: str = "root") -> TraceDocument:
    """Build a trace of these spans."""
    return a_document(
        TraceDocument,
        trace_id="4bf92f3577b34da6a3ce929d0e0e4736",
        project=name,
        service_name=name,
        root_span_name=name,
        start_time=time_text(START_NS),
        duration_ms=5,
        span_count=len(spans),
        error_count=0,
        spans=list(spans),
    )


def lines(trace: TraceDocument, width: int = 100) -> list[str]:
    """Return the lines of the printed trace below its header."""
    header, titles, *texts = trace_text(trace, width=width)
    assert header.plain.startswith("trace ")
    assert titles.plain.split() == ["SPAN", "TYPE", "DURATION", "START", "STATUS"]
    return [line.rstrip() for text in texts for line in text.plain.split("\n")]


def test_a_trace_reads_as_a_tree() -> None:
    """Spans stand under their parents, siblings by start time, with their texts and failures below them."""
    exception = a_document(
        SpanEventDocument,
        time=time_text(START_NS + 1_500_000_000),
        name="exception",
        attributes={"exception.type": "LookupError", "exception.message": "no order 4711", "exception.stacktrace": "…"},
    )
    trace = a_trace(
        a_span("c", "a", name="execute_tool", at_ms=1200, status=("ERROR", "it broke"), events=(exception,)),
        a_span("a", name="invoke_agent", duration_ms=2000.4, texts=("Where is it?", "On its way.\nSoon.")),
        a_span("b", "a", name="chat", at_ms=3, duration_ms=1190.2, status=("OK", "")),
        a_span("d", "c", name="GET", at_ms=1201, duration_ms=None),
    )
    assert lines(trace, width=90) == [
        "invoke_agent              internal             2 s        +0 ms  UNSET",
        "│  input   Where is it?",
        "│  output  On its way.",
        "│          Soon.",
        "├─ chat                   internal          1.19 s        +3 ms  OK",
        "└─ execute_tool           internal            5 ms       +1.2 s  ERROR",
        "   │  error   it broke",
        "   │  event   exception +1.5 s LookupError: no order 4711",
        "   └─ GET                 internal         unended       +1.2 s  UNSET",
    ]


@st.composite
def any_spans(draw: st.DrawFn) -> list[SpanDocument]:
    """Return spans with any parent structure: several roots, orphans, cycles, the same id more than once."""
    ids = st.sampled_from("abcdefgh")
    parents = st.none() | st.just("") | ids | st.just("missing")
    keys = draw(st.lists(st.tuples(ids, parents, st.integers(0, 3)), max_size=14))
    return [
        a_span(span_id, parent, name=f"#{number}#", at_ms=at_ms) for number, (span_id, parent, at_ms) in enumerate(keys)
    ]


@given(any_spans())
def test_any_parent_structure_shows_every_span_once(spans: list[SpanDocument]) -> None:
    """Whatever the parent ids say, each span is printed exactly once and nothing hangs."""
    printed = "\n".join(lines(a_trace(*spans)))
    assert [printed.count(span.name) for span in spans] == [1] * len(spans)


@given(any_spans())
def test_a_child_stands_below_its_parent(spans: list[SpanDocument]) -> None:
    """A child is one level under a span whose id it names; roots, orphans and cut cycles stand at the root level."""
    above: list[SpanDocument] = []
    for node in in_tree_order(spans):
        del above[node.depth :]
        if node.place is Placement.CHILD:
            assert above[-1].span_id == node.span.parent_span_id
        else:
            assert node.depth == 0
            assert (node.place is Placement.ROOT) == (not node.span.parent_span_id)
            known = node.span.parent_span_id in {span.span_id for span in spans}
            assert (node.place is Placement.CYCLE) == known
        above.append(node.span)


def test_an_orphan_is_marked() -> None:
    """A span whose parent is missing stands at the root level with a note."""
    printed = lines(a_trace(a_span("a"), a_span("b", "00f067aa0ba902b7")))
    assert printed[1].startswith("span b ")
    assert printed[2] == "   note    its parent 00f067aa0ba902b7 is not here"


def test_a_cycle_is_cut_at_its_earliest_span_and_marked() -> None:
    """Spans whose parents form a cycle are all shown, with a note."""
    printed = lines(a_trace(a_span("a", "c", at_ms=2), a_span("b", "a", at_ms=1), a_span("c", "b", at_ms=3)))
    assert printed[0].startswith("span b ")
    assert printed[1] == "│  note    its parents lead back to itself; its parent is a"
    assert printed[2].startswith("└─ span c ")
    assert printed[3].startswith("   └─ span a ")


def test_ten_thousand_levels_are_shown() -> None:
    """A chain deeper than any terminal is wide keeps every span, with the depth as a number."""
    spans = [a_span(str(at), str(at - 1) if at else None, name=f"#{at}#") for at in range(10_000)]
    printed = lines(a_trace(*spans))
    assert len(printed) == 10_000
    assert "─ #9# " in printed[9]
    assert "─ (9999) #9999# " in printed[9999]
    assert max(map(cell_len, printed)) <= 100


def test_long_texts_are_folded_and_counted() -> None:
    """Of a long text a few lines are shown and the rest is counted, so that nothing seems to be whole that is not."""
    words = "word " * 1000
    printed = lines(a_trace(a_span(texts=(words, None))), width=100)
    shown = [line.removeprefix("   input ").strip() for line in printed[1:-1]]
    assert len(shown) == TEXT_LINES
    rest = len(words.strip()) - sum(len(line) + 1 for line in shown)
    assert printed[-1].strip() == f"… {rest:,} more characters"


def test_many_events_and_links_are_counted() -> None:
    """Of many events and links the first are shown and the others are counted."""
    events = tuple(
        a_document(SpanEventDocument, name=f"token {at}", attributes={"at": at}) for at in range(MAX_ITEMS + 5)
    )
    links = tuple(a_document(LinkDocument, trace_id=f"{at:032x}", span_id="b" * 16) for at in range(MAX_ITEMS + 1))
    printed = "\n".join(lines(a_trace(a_span(events=events, links=links))))
    assert f"token {MAX_ITEMS - 1} at={MAX_ITEMS - 1}" in printed
    assert f"token {MAX_ITEMS}" not in printed
    assert "5 more events" in printed
    assert "1 more link" in printed


def test_an_error_that_repeats_its_exception_is_shown_once() -> None:
    """The SDK writes an exception both as status and as event, of which one is enough."""
    attributes: dict[str, object] = {"exception.type": "ValueError", "exception.message": "no"}
    event = a_document(SpanEventDocument, time=time_text(START_NS), name="exception", attributes=attributes)
    printed = lines(a_trace(a_span(status=("ERROR", "ValueError: no"), events=(event,))))
    assert printed[1:] == ["   event   exception +0 ms ValueError: no"]


def is_harmless(text: str) -> bool:
    """Return whether no character controls a terminal or reorders text."""
    return all(
        character == "\n" or unicodedata.category(character) not in {"Cc", "Cs", "Zl", "Zp"} for character in text
    ) and not (set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"))


def test_hostile_spans_cannot_touch_the_terminal() -> None:
    """Escape sequences, markup, emoji names and text direction in span data are printed literally."""
    event = a_document(SpanEventDocument, name=HOSTILE, attributes={HOSTILE: HOSTILE})
    link = a_document(LinkDocument, trace_id=HOSTILE, span_id=HOSTILE)
    span = a_span(HOSTILE, "p" + HOSTILE, name=HOSTILE, texts=(HOSTILE, HOSTILE), events=(event,), links=(link,))
    hostile = structs.replace(span, kind=HOSTILE, status_code=HOSTILE, status_message=HOSTILE)
    printed = "\n".join(text.plain for text in trace_text(a_trace(hostile, name=HOSTILE), width=200))
    assert is_harmless(printed)
    assert "\\x1b[2J" in printed
    assert "[red]markup[/red] :bomb: \\u202egnp.exe" in printed


@given(st.text() | st.text(st.sampled_from("\x1b\x9b\u202e\u200d\n\r\t ab你👩\u0301\ud800")), st.integers(10, 60))
def test_any_text_folds_into_its_width(text: str, width: int) -> None:
    """Folded lines fit, are harmless, and together with the omitted count account for all of the text."""
    folded = fold(text, width=width, lines=3)
    assert len(folded.lines) <= 3
    assert all(cell_len(line) <= width and is_harmless(line) and "\n" not in line for line in folded.lines)
    everything = fold(text, width=width, lines=10**6)
    assert everything.omitted_chars == 0
    assert everything.lines[: len(folded.lines)] == folded.lines
    assert (folded.omitted_chars == 0) == (len(everything.lines) == len(folded.lines))


@given(st.text(), st.integers(10, 40))
def test_any_name_is_cropped_to_one_line(text: str, width: int) -> None:
    """A name takes one line of the width it has."""
    cropped = crop(text, width)
    assert cell_len(cropped) <= width
    assert is_harmless(cropped)
    assert "\n" not in cropped


@given(st.text(), st.booleans())
def test_json_is_harmless_and_the_same(text: str, pretty: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """JSON for a program parses back to the same value, and is safe to print."""
    printed = json_text({"text": [text]}, indent=2 if pretty else None)
    assert json.loads(printed) == {"text": [text]}
    assert is_harmless(printed)


def test_scripts_that_need_joiners_keep_them() -> None:
    """Text in any language is readable: only characters that hide or move text are escaped."""
    for text in ("你好世界", "👩\u200d👩\u200d👧", "\u0645\u06cc\u200c\u062e\u0648", "naïve “quoted”", "é\u0301"):
        assert one_line(text) == text


def test_plain_guides_are_ascii() -> None:
    """If the terminal has no Unicode, the tree is drawn in ASCII."""
    trace = a_trace(a_span("a", texts=("x" * 2000, None)), a_span("b", "a", name="n" * 200), a_span("c", "a"))
    assert all(text.plain.isascii() for text in trace_text(trace, width=100, guides=ASCII))


@pytest.mark.parametrize(
    "duration_ms, text",
    [
        (None, "-"),
        (0, "0 ms"),
        (0.0123, "0.0123 ms"),
        (1.25, "1.25 ms"),
        (99.96, "100 ms"),
        (812.4, "812 ms"),
        (999.9, "1000 ms"),
        (1840, "1.84 s"),
        (59_990, "60 s"),
        (60_000, "1 min 00 s"),
        (185_000, "3 min 05 s"),
        (7_380_000, "2 h 03 min"),
        (-5, "-5 ms"),
        (-185_000, "-3 min 05 s"),
    ],
)
def test_durations_are_short(duration_ms: float | None, text: str) -> None:
    """A duration has about three digits and the unit that a person would say."""
    assert duration_text(duration_ms) == text


def test_instants_offsets_and_counts_read_well() -> None:
    """An instant is in UTC to the second, an offset has its sign, a count its noun, and an unknown value is a dash."""
    assert instant_text(START_NS) == "2026-11-21 10:00:00"
    assert instant_text(START_NS, short=True) == "11-21 10:00:00"
    assert instant_text(None) == "-"
    assert offset_text(START_NS, START_NS + 1_500_000) == "+1.5 ms"
    assert offset_text(START_NS, START_NS - 1_500_000) == "-1.5 ms"
    assert offset_text(None, START_NS) == ""
    assert [count_text(number, "row") for number in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]


def a_table(*columns: str, rows: tuple[tuple[object, ...], ...]) -> TableView:
    """Build a query's answer."""
    described = tuple({"name": name, "type": "VARCHAR"} for name in columns)
    return parse_response(TableView, {"columns": described, "rows": rows, "truncated": False})


def test_a_list_of_traces_is_a_plain_table_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal, the table has no colours, has all columns, and cuts no id."""
    names = "a name that goes on " * 3, HOSTILE, "[red]x[/red] :bomb:"
    render.print_traces([a_trace(a_span(), name=name) for name in names])
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    header, first, _, third = printed.splitlines()
    assert header.split("  ")[0] == "TRACE"
    assert all(title in header for title in ("STARTED (UTC)", "NAME", "SERVICE", "PROJECT", "DURATION", "ERRORS"))
    assert first.startswith("4bf92f3577b34da6a3ce929d0e0e4736  2026-11-21 10:00:00  ")
    assert names[0].strip() in first
    assert names[2] in third


def test_no_list_cuts_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    """A list is printed whole whatever its width, and each command that makes one prints it so."""
    table = render.list_table()
    for title in ("ALERT", "STATE", "WHAT"):
        table.add_column(title, no_wrap=True)
    cells = ("a5ac94da397263b2dd706563dda16e07", "recovered", "a line that says much " * 20)
    table.add_row(*cells)
    render.print_list(render.output_console(), table)
    printed = capsys.readouterr().out
    assert all(cell.strip() in printed for cell in cells)
    texts = {path.name: path.read_text() for path in Path(render.__file__).parent.glob("*.py")}
    lists = {name: text for name, text in texts.items() if "= list_table()" in text}
    assert len(lists) >= 7
    assert [name for name, text in lists.items() if "print_list(" not in text or "print(table" in text] == []


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_the_id_of_a_trace_is_never_cut(width: int) -> None:
    """However narrow the terminal, the id can be copied whole, and lines stay within the width if possible."""
    file = io.StringIO()
    Console(width=width, file=file).print(render.traces_table([a_trace(a_span(), name="n" * 80)], width), crop=False)
    printed = file.getvalue().splitlines()
    assert all("4bf92f3577b34da6a3ce929d0e0e4736" in line for line in printed[1:])
    assert max(map(len, printed)) <= max(width, 80)


def test_an_empty_list_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """No traces is an answer, not an empty screen."""
    render.print_traces([])
    assert capsys.readouterr().out == "no traces here\n"


def test_an_answer_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Rows stand under their columns, NULL differs from an empty text, and numbers are right-aligned."""
    render.print_table(a_table("name", "n", rows=(("chat", 12), (None, 3), ("", 4))))
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "name   n",
        "chat  12",
        "NULL   3",
        "       4",
        "3 rows",
    ]


def test_an_answer_with_many_columns_is_shown_as_records(capsys: pytest.CaptureFixture[str]) -> None:
    """Columns that would not fit side by side stand below each other, one record after the other."""
    names = [f"column_{at}" for at in range(30)]
    render.print_table(a_table(*names, rows=(tuple(range(30)), (HOSTILE, *range(29)))))
    printed = capsys.readouterr().out
    assert is_harmless(printed)
    assert "row 1\n  column_0   0\n  column_1   1\n" in printed


def test_csv_can_be_read_again(capsys: pytest.CaptureFixture[str]) -> None:
    """CSV keeps every value, whatever characters it holds; NULL is empty and nested values are JSON."""
    nasty = 'a "quoted", text\nwith lines'
    render.print_table_csv(a_table("a", "b", rows=((nasty, None), (1.5, {"x": [1, True]}), (True, ""))))
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out)))
    assert rows == [["a", "b"], [nasty, ""], ["1.5", '{"x": [1, true]}'], ["true", ""]]


def test_json_rows_are_objects(capsys: pytest.CaptureFixture[str]) -> None:
    """Each row is an object, and of columns with one name none is lost."""
    render.print_table_json(a_table("a", "a", "b", rows=((1, None, "x"),)))
    assert json.loads(capsys.readouterr().out) == [{"a": 1, "a_2": None, "b": "x"}]


@given(st.lists(st.sampled_from(["a", "a_2", "a_3", "b"]), max_size=8))
def test_columns_keep_names_of_their_own(names: list[str]) -> None:
    """Names are made unique, each begins with its old name, and the first of equal names is unchanged."""
    unique = render.unique_names(names)
    assert len(set(unique)) == len(names)
    assert all(new.startswith(old) for new, old in zip(unique, names, strict=True))


def test_times_of_the_api_keep_their_nanoseconds() -> None:
    """RFC 3339 with any number of digits is read exactly."""
    for digits, nanoseconds in (("", 0), (".5", 500_000_000), (".000000123", 123)):
        assert instant_ns(f"2026-11-21T10:00:00{digits}Z") == START_NS + nanoseconds


def test_every_place_of_the_tree_is_reached() -> None:
    """Roots come first, then orphans, then cycles."""
    spans = [a_span("x", "y"), a_span("y", "x"), a_span("o", "gone"), a_span("k", "r"), a_span("r")]
    places = [node.place for node in in_tree_order(spans)]
    assert [place for place, _ in itertools.groupby(places)] == [
        Placement.ROOT,
        Placement.CHILD,
        Placement.ORPHAN,
        Placement.CYCLE,
        Placement.CHILD,
    ]


def test_a_replaced_stream_of_results_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """It compares with nothing, which is not a report of 0 results since it began."""
    fields: dict[str, object] = {
        "projectName": "shop", "ruleName": "tone", "fingerprint": "f", "replacedFingerprint": None, "began": "first",
        "since": "2026-11-21T10:00:00Z", "updatedAt": "2026-11-22T10:00:00Z", "measure": "passed", "monitors": [],
        "openAlertId": None, "tenant": "", "ruleId": "r", "ruleRevision": 1, "evaluator": "e", "firstResult": 1,
        "lastResult": 1, "scored": 0, "settings": {},
    }  # fmt: skip
    print_monitors(parse_response(list[StreamDocument], [fields | {"results": results} for results in (0, 1)]))
    replaced, _, watched, *_ = capsys.readouterr().out.splitlines()
    assert replaced.endswith("another evaluator took its place; latest result 2026-11-22 10:00:00")
    assert watched.endswith("1 result since 2026-11-21 10:00:00")


def test_a_trace_without_content_says_so() -> None:
    """The header names the setting of the first note that has one; other notes stand in the explanation alone."""
    silent = structs.replace(a_span(), notes=["span: x", "input: content is not captured (set A=b (or c))"])
    header = next(iter(trace_text(a_trace(silent), width=100))).plain
    assert "inputs or outputs of models were not captured: set A=b (or c)\n" in header
    assert "captured" not in next(iter(trace_text(a_trace(a_span()), width=100))).plain
