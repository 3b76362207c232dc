"""The rows of all dialects are well-formed, and each can be reached."""

import re
from pathlib import Path

import pytest

from collector.conventions.dialects.order import BY_NAME, DIALECTS, KIND_ORDER, SOURCES
from collector.conventions.names import PROJECT_KEYS, project_of, service_of
from collector.conventions.table import Dialect, place_of
from storage.records import AttributeValue
from tests.conventions.making import read

ROOT = Path(__file__).parent.parent.parent
each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)


def test_dialects_have_names_of_their_own() -> None:
    """No two dialects have the same name."""
    names = [dialect.name for dialect in DIALECTS]
    assert len(set(names)) == len(names)


def test_every_dialect_with_rows_is_looked_up() -> None:
    """A dialect whose places were left out of the order of sources would never be read."""
    assert {dialect.name for dialect in DIALECTS if dialect.places} == {dialect.name for dialect in SOURCES}


def test_no_row_is_listed_twice_for_a_field() -> None:
    """A second row for the same place could never win."""
    rows = [(slot, row) for dialect in SOURCES for slot, listed in dialect.places.items() for row in listed]
    seen = [one for one in rows if not one[1].startswith("only ")]
    assert len(set(seen)) == len(seen)


@each_dialect
def test_rows_of_a_dialect_are_spelled_as_the_table_says(dialect: Dialect) -> None:
    """Words in front, a key without spaces, and behind it a number, a path or a value."""
    words = r"(only )?(json )?(scope [\w.@/-]+/)?(kind \w+/)?(event [\w.]+/)?"
    pattern = re.compile(words + r"[\w.:-]+(\.\*)?(#[\w.]+)?(=\w+)?")
    for slot, rows in dialect.places.items():
        for row in rows:
            assert pattern.fullmatch(row), row
            # A slot for the state of a span, and not for its content, depends on a value.
            value = place_of(row, slot=slot, rank=1, dialect=dialect.name).value
            assert (value != "") == (slot in ("failed", "pending") or row == "only memory.semantic=false"), row


@each_dialect
def test_keys_that_tell_kinds_have_a_place_in_the_order(dialect: Dialect) -> None:
    """Every key that says what a span does is in the order, or beats it."""
    assert [kinds.key for kinds in dialect.kinds if not kinds.is_first and kinds.key not in KIND_ORDER] == []


def test_the_order_of_kinds_names_only_keys_that_tell_one() -> None:
    """A key that no dialect has any longer leaves the order with it."""
    keys = {kinds.key for dialect in DIALECTS for kinds in dialect.kinds}
    assert set(KIND_ORDER) - {BY_NAME} <= keys


@each_dialect
def test_each_kind_of_a_dialect_is_read(dialect: Dialect) -> None:
    """Every value of every key gives its kind, whatever its case."""
    for kinds in dialect.kinds:
        for value, kind in kinds.values.items():
            for spelling in (value or "x", (value or "x").upper()):
                assert read({kinds.key: spelling}).span_type == kind, (kinds.key, spelling)


def test_the_page_about_reading_names_every_dialect() -> None:
    """Every dialect with signs is documented."""
    page = (ROOT / "docs" / "reading.md").read_text(encoding="utf-8")
    assert [dialect.name for dialect in DIALECTS if dialect.signs and f"`{dialect.name}`" not in page] == []


def test_the_project_is_named_by_the_resource() -> None:
    """The strongest name wins, and the service's name is the project's when there is no other."""
    resource: dict[str, AttributeValue] = {key: key for key in PROJECT_KEYS}
    for key in PROJECT_KEYS:
        assert project_of(resource) == key
        del resource[key]
    assert project_of({}) == ""
    assert project_of({"dokimos.project": " ", "service.name": "shop"}) == "shop"
    assert service_of({"service.name": "shop"}) == "shop"


def test_a_span_that_nobody_instrumented_means_nothing() -> None:
    """Nothing is made up."""
    reading = read({"http.request.method": "GET"}, name="GET /")
    assert (reading.span_type, reading.dialect, reading.input, reading.output) == ("other", None, None, None)
    assert (reading.sources, reading.notes) == ({}, ())
