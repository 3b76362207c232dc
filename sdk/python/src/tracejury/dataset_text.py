"""Items of datasets in JSON, JSONL and CSV: the one reader of SDK, server and commands."""

import codecs
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TextIO

from tracejury.strict_json import parse_json, unknown

MAX_ITEM_BYTES: Final = 4 << 20
"""The most bytes of one item as JSON. A guess: the longest conversation with its documents, and half of what a request
may hold."""

MAX_ID_CHARACTERS: Final = 200
_MAX_LEVELS: Final = 200  # pydantic serializes 255, including those of the response around a value
_LEVELS: Final = "200 levels (fixed): nest it less"
MAX_COLUMNS: Final = 1_000  # a guess
_ITEM: Final = "4 MiB (fixed): shorten its texts, or make several items of it"
_COLUMNS: Final = "1,000 columns (fixed): join some of them"

_INPUTS: Final = ("inputs", "input")
_EXPECTED: Final = ("expectedOutputs", "expected_outputs", "expectedOutput", "expected_output")
_KEYS: Final = frozenset({"id", *_INPUTS, *_EXPECTED, "metadata", "source"})
_IGNORED: Final = frozenset({"ordinal", "digest"})  # skipped fields of the server's responses
_MAPS: Final = {"inputs": "inputs", "expectedoutputs": "expectedOutputs", "metadata": "metadata", "source": "source"}
_EXPECTED_COLUMNS: Final = ("expectedoutput", "expected_output", "output")
_SEPARATORS: Final = ",;\t"
# Possessive quantifiers need Python 3.11; a character is never tried twice without them either.
_CELLS: Final = {
    each: re.compile(rf'{blank}*"([^"]*(?:""[^"]*)*)"{blank}*(?={each}|\Z)|([^{each}"]*)(?={each}|\Z)')
    for each, blank in zip(_SEPARATORS, (r"[ \t]", r"[ \t]", "[ ]"), strict=True)
}
_SEPARATOR_LINE: Final = re.compile(r'("?)sep=([,;\t])\1[,;\t\r\n]*')  # Excel's separator line; some programs quote it
_BOM: Final = b"\xef\xbb\xbf"
_MOST_PLACES: Final = 10
_SHOWN: Final = 40  # characters of a value in an error

QUOTES: Final = 'put a cell that holds quotes in quotes, and write each of its own twice ("")'

LEFT_OUT: Final = "left out"
"""The first value of the pair that is yielded for a row of empty cells; the second is the row's line."""

Parse = Callable[[bytes, str], Any]
"""Parser of JSON bytes; the text begins its error messages. It raises BadFile."""

Documents = Iterator[tuple[str, object]]
"""Values in a file, each with its line or row."""


class BadFile(ValueError):
    """A file without readable items; the message names the line or row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemText:
    """Fields of an item. `item_id` is None if the file has none."""

    item_id: str | None
    inputs: Mapping[str, Any]
    expected_outputs: Mapping[str, Any]
    metadata: Mapping[str, Any]
    source: Mapping[str, Any] | None = None


def json_texts(*values: object) -> list[str]:
    """Return the values of an item as JSON texts, as they are stored.

    Raises:
        ValueError: the values are too large or too deep, have NaN or infinity, or cannot be written as UTF-8.
    """
    texts = [json_text(each) for each in values]
    if sum(len(text.encode()) for text in texts) > MAX_ITEM_BYTES:
        raise ValueError(f"it is larger than {_ITEM}")
    return texts


def json_text(value: object) -> str:
    """Return a JSON value as it is stored.

    Raises:
        ValueError: the value has NaN or infinity, cannot be written as UTF-8, or is too deep to be read again.

    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is not valid text") from None
    except RecursionError:
        raise ValueError("nested too deeply to be written: nest it less") from None
    if text.count("[") + text.count("{") > _MAX_LEVELS and _is_deep(value):
        raise ValueError(f"nested in more than {_LEVELS}")
    return text


def _is_deep(value: object) -> bool:
    level = [value]
    for _ in range(_MAX_LEVELS):
        level = [
            each
            for of in level
            if isinstance(of, (dict, list))
            for each in (of.values() if isinstance(of, dict) else of)
            if isinstance(each, (dict, list))
        ]
    return bool(level)


def read_item(document: object) -> ItemText:
    """Read an item from JSON: simple values (`input`, `expectedOutput`), or maps (`inputs`, `expectedOutputs`, …).

    If both forms are present, the map counts unless it is empty.

    Raises:
        ValueError: the document is not an item; the message names the key.
    """
    if not isinstance(document, Mapping):
        raise ValueError("an item is a JSON object")
    wrong = next((key for key in document if key not in _KEYS | _IGNORED), None)
    if wrong is not None:
        raise ValueError(f"{wrong}: {unknown(str(wrong), _KEYS)}")
    inputs = _values(document, _INPUTS[:1]) or _simple(document, _INPUTS[1:], "input")
    if not inputs:
        raise ValueError("inputs: every item needs some")
    return ItemText(
        item_id=read_id(document.get("id")),
        inputs=inputs,
        expected_outputs=_values(document, _EXPECTED[:2]) or _simple(document, _EXPECTED[2:], "output"),
        metadata=_values(document, ("metadata",)),
        source=_values(document, ("source",)) or None,
    )


def read_id(value: object) -> str | None:
    """Return the id of an item: a whole number as text, and None for blank text.

    Raises:
        ValueError: the value cannot be an id.
    """
    if value is None:
        return None
    if not isinstance(value, (str, int)) or isinstance(value, bool):
        raise ValueError("id: must be text")
    text = str(value).strip()
    if len(text) > MAX_ID_CHARACTERS or not text.isprintable():
        raise ValueError(f"id: an id has visible characters only, and at most {MAX_ID_CHARACTERS} of them: shorten it")
    return text or None


def parsed(content: bytes, place: str) -> Any:
    """Parse JSON; `place` begins the error messages.

    Raises:
        BadFile: the content is not UTF-8, or not JSON.

    """
    try:
        return parse_json(content.decode())
    except UnicodeDecodeError as error:
        raise BadFile(f"{place}it is not UTF-8: {error}") from None
    except ValueError as error:
        raise BadFile(f"{place}it is not JSON: {error}") from None


def json_documents(document: object) -> Documents:
    """Yield the examples of a dataset as one JSON document: a list, or an object that has it as `examples` or `items`.

    Raises:
        BadFile: the document has no list of examples.

    """
    examples = document.get("examples", document.get("items")) if isinstance(document, dict) else document
    if not isinstance(examples, list):
        raise BadFile('not a dataset; expected a list of items, or {"name": …, "examples": […]}')
    for number, example in enumerate(examples, start=1):
        yield f"example {number}", example


def jsonl_documents(file: BinaryIO, parse: Parse = parsed) -> Documents:
    """Yield the documents of a file with one in each line; blank lines are passed over.

    Raises:
        BadFile: a line is not JSON, or too long.

    """
    number = 0
    while line := file.readline(MAX_ITEM_BYTES + 1):
        number += 1
        if len(line) > MAX_ITEM_BYTES:
            raise BadFile(f"line {number}: longer than {_ITEM}")
        text = line.removeprefix(_BOM) if number == 1 else line
        if text.strip():
            yield f"line {number}", parse(text, f"line {number}: ")


def csv_documents(file: BinaryIO, parse: Parse = parsed) -> Documents:
    """Yield the documents of a file of separated values with a header, and LEFT_OUT for each row of empty cells.

    Raises:
        BadFile: a line is wrong.

    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    try:
        for place, row in table_rows(_records(text)):
            yield (place, document_of_row(row, f"{place}: ", parse)) if row else (LEFT_OUT, place)
    except UnicodeDecodeError:
        raise BadFile(_not_utf8(file)) from None
    finally:
        if not file.closed:  # by its owner, before this generator was dropped
            text.detach()


def table_rows(
    records: Iterator[tuple[int, list[str]]], needed: Sequence[str] = _INPUTS
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the rows below a header by the names of their columns, each with its line; {} if all cells are empty.

    Raises:
        BadFile: no needed column exists, there are too many columns, a name occurs twice, or a cell has no name.
    """
    first, header = next(records, (1, []))
    names = [name.strip() for name in header]
    lower = [name.lower() for name in names if name]
    if len(names) > MAX_COLUMNS:
        raise BadFile(f"line {first}: {len(names):,} columns, which is more than {_COLUMNS}")
    twice = next((name for name in names if name and lower.count(name.lower()) > 1), None)
    if twice is not None:
        raise BadFile(f"line {first}: two columns have the name {shown(twice)}: rename one of them")
    if needed and not set(needed).intersection(lower):
        existing = ", ".join(shown(name) for name in names[:10] if name) or "none"
        raise BadFile(
            f"line {first}: there is no column `{needed[-1]}`; the columns are {existing}: "
            "name the one that goes in so; names are separated by commas, semicolons or tabs"
        )
    for line, cells in records:
        unnamed = next((at for at, cell in enumerate(cells) if cell and (at >= len(names) or not names[at])), None)
        if unnamed is not None:
            raise BadFile(
                f"line {line}: {len(cells)} cells, and the header has {len(names)}; {shown(cells[unnamed])} is below "
                "no name: name its column, or put the cell that holds a separator in quotes"
            )
        row = {name: cell for name, cell in zip(names, cells, strict=False) if name}
        yield f"line {line}", row if any(cells) else {}


def places_text(places: Sequence[str], of: str, count: int | None = None) -> str:
    """Format a number of places, and the first ten of them."""
    count = len(places) if count is None else count
    first = ", ".join(places[:_MOST_PLACES])
    return f"{count:,} {of}: {first}{', …' if count > _MOST_PLACES else ''}"


def shown(value: str) -> str:
    """Return a value for an error: quoted, and shortened if it is long."""
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…")


def named_separator(line: str) -> str | None:
    """Return the separator that a first line names, as Excel has it: `sep=;`; None if it is another line."""
    match = _SEPARATOR_LINE.fullmatch(line)
    return match and match[2]


def separator_of(header: str) -> str:
    """Return the separator of a header: a comma, unless it has none outside quotes."""
    bare = re.sub(r'"[^"]*"', "", header)
    return next((each for each in _SEPARATORS if each in bare), ",")


def document_of_row(row: Mapping[str, Any], place: str, parse: Parse = parsed) -> dict[str, Any]:
    """Return the document of a row: JSON texts in `inputs`, `expectedOutputs`, `metadata`, or plain columns.

    Raises:
        BadFile: a text is not JSON.

    """
    lower = {name.lower(): name for name in row}
    document: dict[str, Any] = {"id": row.get(lower.get("id", ""))}
    if "inputs" in lower:
        for name, key in _MAPS.items():
            text = row.get(lower.get(name, ""))
            if text is not None and not isinstance(text, str):
                raise BadFile(f"{place}{key}: JSON text is read, and this is {type(text).__name__}")
            if text:
                document[key] = parse(text.encode(), f"{place}{key}: ")
        return document
    expected = next((name for name in _EXPECTED_COLUMNS if name in lower), None)
    taken = {lower.get("id"), lower.get("input"), lower.get(expected or "")}
    if row.get(lower.get("input", "")) is not None:
        document["input"] = row[lower["input"]]
    if expected is not None and row.get(lower[expected]) is not None:
        document["expectedOutput"] = row[lower[expected]]
    document["metadata"] = {name: value for name, value in row.items() if name not in taken}
    return document


def _records(file: TextIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the records of RFC 4180 with their first lines: quoted cells as they are, others trimmed."""
    number, separator = 0, ""
    while text := file.readline(MAX_ITEM_BYTES):
        number += 1
        begins, lines, size, is_open = number, [text], len(text), text.count('"') % 2
        while is_open:
            more = file.readline(MAX_ITEM_BYTES)
            number += 1
            size += len(more)
            if not more or size > MAX_ITEM_BYTES:
                at = text.rindex('"')
                raise BadFile(f"line {begins}: a quote is not closed: {shown(text[at:].rstrip())}; {QUOTES}")
            lines.append(more)
            is_open ^= more.count('"') % 2
        record = "".join(lines).rstrip("\r\n")
        if not separator and (named := named_separator(record)):
            separator = named
        elif record.strip(" " if separator == "\t" else None):
            separator = separator or separator_of(record)
            yield begins, _cells(record, begins, separator)


def _cells(record: str, line: int, separator: str) -> list[str]:
    cells, at, pattern = [], 0, _CELLS[separator]
    while True:
        match = pattern.match(record, at)
        if match is None:
            cell = record[at:].partition(separator)[0]
            raise BadFile(f"line {line}: a quote stands inside of a cell: {shown(cell)}; {QUOTES}")
        quoted, plain = match.groups()
        cells.append(plain.strip() if quoted is None else quoted.replace('""', '"'))
        at = match.end() + 1
        if match.end() >= len(record):
            return cells


def _not_utf8(file: BinaryIO) -> str:
    """Describe the first byte of a file that is not UTF-8."""
    file.seek(0)
    decoder, number = codecs.getincrementaldecoder("utf-8")(), 0
    while line := file.readline(MAX_ITEM_BYTES):
        number += 1
        try:
            decoder.decode(line)
        except UnicodeDecodeError as error:
            return not_utf8(number, error)
    return not_utf8(number, None)


def not_utf8(line: int, error: UnicodeDecodeError | None) -> str:
    """Format the error of a text that is not UTF-8: line, byte, and how to save it."""
    byte = "the end" if error is None else f"the byte 0x{error.object[error.start]:02x}"
    return f"line {line}: {byte} is not UTF-8: save the file as UTF-8 (in Excel: CSV UTF-8)"


def _values(document: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the map under one of these keys, or an empty one."""
    for key in keys:
        value = document.get(key)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            raise ValueError(f"{key}: expected an object")
        return dict(value)
    return {}


def _simple(document: Mapping[str, Any], keys: tuple[str, ...], name: str) -> dict[str, Any]:
    return next(({name: document[key]} for key in keys if key in document), {})
