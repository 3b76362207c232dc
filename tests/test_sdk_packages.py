"""Datasets that installed packages bring, as the SDK loads them."""

import sys
import zipfile
from pathlib import Path

import pytest

from tracejury import Dataset, DatasetNotFound

CASES = '{"id": "a", "input": 1, "expectedOutput": 2}\n{"id": "b", "input": 2}\n'
FILES = {
    "brings_cases/__init__.py": "",
    "brings_cases/evals/__init__.py": "",
    "brings_cases/evals/qa.jsonl": CASES,
    "brings_cases/data/deep/qa.csv": "input,expectedOutput\n1,2\n",
    "needs_another/__init__.py": "import not_installed_anywhere\n",
}


@pytest.fixture(name="installed", params=["folder", "archive"], autouse=True)
def a_package(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the package on the path of this process, as files or in an archive."""
    where = tmp_path / "site"
    if request.param == "archive":
        with zipfile.ZipFile(where, "w") as archive:
            for name, text in FILES.items():
                archive.writestr(name, text)
    else:
        for name, text in FILES.items():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            (where / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(where)
    for name in [name for name in sys.modules if name.split(".")[0] in {"brings_cases", "needs_another"}]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("place", ["package:brings_cases/evals/qa.jsonl", "package:brings_cases.evals/qa.jsonl"])
def test_a_file_of_a_package_is_a_dataset(place: str) -> None:
    """By the package that has it, or by one above; the place before it is passed over."""
    dataset = Dataset.load("package:brings_cases/none.json", place)
    assert (dataset.name, [example.id for example in dataset]) == ("qa", ["a", "b"])
    assert Dataset.load("package:brings_cases/data/deep/qa.csv")[0].expected_output == "2"


@pytest.mark.parametrize(
    "place", ["package:brings_cases/none.json", "package:unheard.of/qa.json", "package:brings_cases.none/x.json"]
)
def test_a_package_or_file_that_is_not_there_is_told(place: str) -> None:
    """By the place that was named."""
    with pytest.raises(DatasetNotFound, match=f"{place}: no package that is installed has such a file"):
        Dataset.load(place)


def test_what_is_wrong_with_a_place_is_told() -> None:
    """A place without a path, and a package that cannot be imported for another reason, which is not hidden."""
    with pytest.raises(ValueError, match="is not a package:PACKAGE/PATH"):
        Dataset.load("package:brings_cases")
    with pytest.raises(ModuleNotFoundError, match="not_installed_anywhere"):
        Dataset.load("package:needs_another/qa.json")
