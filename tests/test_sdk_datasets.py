"""Files of datasets: the SDK reads each as the server imports it, or refuses it for the same reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.offline import Offline, an_offline_server
from tracejury import Dataset, Example


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield one server for all, with a dataset."""
    with an_offline_server(tmp_path_factory.mktemp("datasets") / "data") as server:
        server.dataset()
        yield server


@pytest.mark.parametrize(
    "form, text",
    [
        ("csv", 'input,expectedOutput,topic\n q , 4 ,"  kept "\n"a ""b""",\n\n c,d\n'),
        ("csv", '\ufeffid, Input ,OUTPUT\n 7 ,"two\nlines",x\n'),
        ("csv", 'id,inputs,expectedOutputs\n1,"{""a"": [1, 2]}","{""output"": null}"\n'),
        ("jsonl", '{"input": "q", "expected_output": 1}\n\n{"id": 5, "inputs": {}, "input": 2, "metadata": null}\n'),
        ("json", '{"name": "n", "items": [{"input": "q", "expectedOutput": [1], "source": {"file": "f"}}]}'),
    ],
)
def test_a_file_is_one_dataset_everywhere(server: Offline, tmp_path: Path, form: str, text: str) -> None:
    """Inputs, expected outputs, metadata and given ids are those of the server."""
    file = tmp_path / f"cases.{form}"
    file.write_text(text, encoding="utf-8", newline="")
    server.imported(text.encode(), form)
    stored = [(each["inputs"], each["expectedOutputs"], each["metadata"]) for each in server.items()]
    read = Dataset.load(file)
    assert [(each.inputs, each.expected_outputs, each.metadata) for each in read] == stored
    ids = [each["id"] for each in server.items()]
    assert [each.id or name for each, name in zip(read, ids, strict=True)] == ids


@pytest.mark.parametrize(
    "form, text, place",
    [
        ("json", '[{"input": 1, "input": 2}]', ""),
        ("jsonl", '{"input": 1}\n{"input": {"a": 1, "a": 2}}', "line 2: "),
        ("jsonl", '{"input": 1, "expectd": 2}', "line 1: "),
        ("jsonl", '{"id": "a", "input": 1}\n{"id": "a", "input": 2}', "line 2: "),
        ("jsonl", '{"input": NaN}', "line 1: "),
        ("csv", "input,input\n1,2\n", "line 1: "),
        ("csv", "input\n1,2\n", "line 2: "),
        ("csv", 'input\na"b\n', "line 2: "),
        ("csv", "question\n1\n", "line 1: "),
        ("json", "[]", ""),
        ("json", '[{"input": "\\ud800"}]', "example 1: "),
        pytest.param("jsonl", '{"input": 1}\n{"input": ' + "[" * 250 + "]" * 250 + "}", "line 2: ", id="deep"),
        pytest.param("csv", f"input,output\n{'x' * (3 << 20)},{'y' * (2 << 20)}\n", "line 2: ", id="large row"),
        pytest.param("json", f'[{{"input": "{"x" * (4 << 20)}"}}]', "example 1: ", id="large example"),
    ],
)
def test_a_file_that_the_server_refuses_is_refused(server: Offline, form: str, text: str, place: str) -> None:
    """The message is the same, and names the line."""
    refused = server.imported(text, form, 400)["error"]
    readers = {"json": Dataset.from_json, "jsonl": Dataset.from_jsonl, "csv": Dataset.from_csv}
    with pytest.raises(ValueError, match=f"^{place}") as error:
        readers[form](text)
    assert str(error.value) == refused


def test_a_dataset_of_text_has_name_and_description() -> None:
    """The document's name and description override the arguments; a short example is read as in a file."""
    read = Dataset.from_json(
        '{"name": "qa", "description": "Of help", "examples": [{"input": 1, "expectedOutput": 2}]}'
    )
    assert (read.name, read.description, [*read]) == ("qa", "Of help", [Example.of(1, 2)])
    assert (Dataset.from_csv("input\n1\n", name="numbers").name, [*Dataset.from_csv("input\n1\n")]) == (
        "numbers",
        [Example.of("1")],
    )
    assert [*Dataset.from_jsonl('{"input": "a", "metadata": {"topic": "t"}}')] == [Example.of("a", topic="t")]
