"""The formats of JSON Schema that are checked here and not by the library: IRIs."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator, Draft7Validator, Draft202012Validator
from rfc3986_validator import validate_rfc3986

from evaluators.full_schema import formats_of, is_iri

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "text, iri, reference",
    [
        ("http://example.org/rosé", True, True),
        ("http://résumé.example.org", True, True),
        ("urn:カレー:😀", True, True),
        ("http://[::1]:80/ü", True, True),
        ("http://example.org/?\ue000", True, True),  # private-use characters may stand in a query
        ("http://example.org/\ue000", False, False),
        ("http://example.org/?a#\ue000", False, False),
        ("http://example.org/#?\ue000", False, False),  # this question mark begins no query
        ("rosé", False, True),
        ("//é/x?é#é", False, True),
        ("", False, True),
        ("é:x", False, False),  # a scheme has letters of ASCII only, and a colon no place in a first segment
        ("http://example.org/\ufdd0", False, False),  # no character
        ("http://example.org/\x80", False, False),
        ("http://example.org/a b", False, False),
        ("http://example.org/%zz", False, False),
        ("http://example.org:é/", False, False),
    ],
)
def test_iris(text: str, iri: bool, reference: bool) -> None:  # noqa: FBT001 - parameters
    """Characters of RFC 3987 are accepted in their allowed places, and nowhere else."""
    assert is_iri(text, rule="URI") is iri
    assert is_iri(text, rule="URI_reference") is reference


@given(st.text(alphabet="ab1:/?#[]@!%4=. -~", max_size=20))
def test_an_iri_of_ascii_is_a_uri(text: str) -> None:
    """Without other characters the two are one."""
    assert is_iri(text, rule="URI") == bool(validate_rfc3986(text, rule="URI"))
    assert is_iri(text, rule="URI_reference") == bool(validate_rfc3986(text, rule="URI_reference"))


@given(st.text(max_size=20))
def test_any_text_has_an_answer(text: str) -> None:
    """Nothing is too strange to be asked about, and each IRI is a reference too."""
    assert not is_iri(text, rule="URI") or is_iri(text, rule="URI_reference")


def test_the_drafts_that_know_iris_check_them() -> None:
    """The drafts since the seventh know both formats; a value that is not a text is of every format."""
    for kind in (Draft7Validator, Draft202012Validator):
        schema = {
            "properties": {"iri": {"format": "iri"}, "ref": {"format": "iri-reference"}, "ip": {"format": "ipv4"}}
        }
        check = kind(schema, format_checker=formats_of(kind))
        assert [error.path[0] for error in check.iter_errors({"iri": "é", "ref": "a b", "ip": "1"})] == [
            "iri",
            "ref",
            "ip",
        ]
        assert check.is_valid({"iri": 1, "iri-reference": None, "ipv4": []})
    assert "iri" not in formats_of(Draft4Validator).checkers


def test_no_process_compiles_the_grammar_of_the_library() -> None:
    """The package with the slow import is not installed with ours: jsonschema imports it if it is installed."""
    for lock in ("requirements.lock", "requirements-dev.lock"):
        assert "rfc3987-syntax" not in (ROOT / lock).read_text(encoding="utf-8")
