"""Rules for names, docstrings and documents: violations, and texts that are none."""

from pathlib import Path

import pytest

from tests.prose import COUNTS, DOCUMENTS, FOLDERS, RULES, main, violations, violations_of_document
from tests.source_tree import PACKAGES, ROOT


@pytest.mark.parametrize(
    "source, rules",
    [
        ('def read():\n    """Return the rows."""', []),
        ('def read():\n    """Whether there are rows."""', ["verb"]),
        ('class Row:\n    """What a query returns."""', ["verb"]),
        ('def test_rows():\n    """What is stored is returned."""', []),
        ('async def _read():\n    """Return the rows."""\n    return rows', ["short"]),
        (
            'def _read():\n    """Return the rows.\n\n    Raises:\n        OSError: no file."""\n' + "    a()\n" * 5,
            ["raises"],
        ),
        (
            'def read():\n    """Return the row.\n\n    Raises:\n        Missing: there is none.\n    """',
            ["raises-text"],
        ),
        ('def read():\n    """Return the row.\n\n    Raises:\n        Missing: no row has the id.\n    """', []),
        (
            (
                'def read():\n    """Return the row.\n\n    Raises:\n        Missing: there is no row\n'
                '            of this tenant with the id.\n        ReadOnly: it is one.\n    """'
            ),
            ["raises-text"],
        ),
        ('def close():\n    """End the stream unless somebody reads it."""', ["people"]),
        ("x = 1  # nobody reads it", ["people"]),
        ('x = "nobody reads it"', []),
        ('def read():\n    """Refuse a text that is no number."""', ["is-no"]),
        ("x = 1  # it is no number", ["is-no"]),
        ("x = 1  # it is no longer a number, which is no wider than that; there is no number", []),
        ('Field(description="What came out.")', ["description"]),
        ('option(help=f"Why {name} waits.")', ["description"]),
        ('doc("They wait.")', ["description"]),
        ('Field(description="The output.", title="Why it waits.")', []),
        ('dataset(description="What users ask.")', []),
        ("told = 1", ["data"]),
        ("def read(rows_found): pass", ["data"]),
        ("self.asked = 1", ["data"]),
        ("if found := read(): pass", ["data"]),
        ("def was_found(): return given()", []),
        ("foundation = 1", []),
    ],
)
def test_a_violation_has_one_rule(source: str, rules: list[str]) -> None:
    """Claims of tests, texts and calls are none."""
    assert [rule for rule, _ in violations(source)] == rules


_WORDS = "A " + " ".join(["word"] * 24)


@pytest.mark.parametrize(
    "text, places",
    [
        (f"{_WORDS}. {_WORDS}.", []),
        (f"{_WORDS}.\n\nOne more {_WORDS}.", [("long", 3)]),
        (f"Read `{_WORDS} {_WORDS}`, [the page](a.md).", []),
        (f"[One more {_WORDS}](a.md).", [("long", 1)]),
        (f"- {_WORDS}\n- {_WORDS}\n2. {_WORDS}", []),
        (f"# {_WORDS} {_WORDS}\n| {_WORDS} | {_WORDS} |\n```sh\n{_WORDS} {_WORDS}\n```\nOne\n{_WORDS}", [("long", 6)]),
        ("It waits.\nIt is\nno number. It is no longer one.", [("is-no", 2)]),
        ("It waits.\nNobody reads `nobody`.", [("docs-people", 2)]),
    ],
)
def test_sentences_of_documents_are_short(text: str, places: list[tuple[str, int]]) -> None:
    """Code is one word, and the items of a list, headings and tables are not sentences."""
    assert list(violations_of_document(text)) == places


def test_a_number_only_falls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """More violations than the file allows fail with the command that lists them; fewer lower its number."""
    module, numbers = tmp_path / "collector" / "module.py", tmp_path / COUNTS
    for file in (module, numbers):
        file.parent.mkdir()
    numbers.write_text("".join(f"{rule} = 9\n" for rule in RULES).replace("data = 9", "data = 1 # names"), "utf-8")
    module.write_text("told = 1\nfound = 2\n", "utf-8")
    (tmp_path / "README.md").write_text("Somebody waits.", "utf-8")
    monkeypatch.setattr("tests.prose.ROOT", tmp_path)
    assert main([]) == 1
    assert (
        "data allows 1 violations, and there are 2; list them with python -m tests.prose data"
        in capsys.readouterr().err
    )
    module.write_text("told = 1\n", "utf-8")
    assert main(["--lower", "data"]) == 0
    assert capsys.readouterr().out == "collector/module.py:1\n"
    assert numbers.read_text("utf-8").startswith("verb = 0\ndata = 1 # names\n")
    assert numbers.read_text("utf-8").endswith("docs-people = 1\n")


def test_every_folder_of_code_is_read() -> None:
    """The counts are of the product, the SDK, the benchmarks and the tests."""
    assert {*PACKAGES, "benchmarks", "sdk/python/src", "tests"} == set(FOLDERS)
    assert all((ROOT / folder).is_dir() for folder in FOLDERS)
    assert all(list(ROOT.glob(pattern)) for pattern in DOCUMENTS)
