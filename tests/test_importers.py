"""Files of other tools become items: in the shapes that these tools write, with the place of each error."""

import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from collector.cli.datasets import _TOOLS
from collector.cli.main import main
from collector.datasets.importers.reading import BadExport
from collector.datasets.importers.tools import TOOLS, lines_of
from tests.offline import Offline, an_offline_server

WRITTEN = Path(__file__).parent / "exports_of_tools"
USER_MESSAGE = {"role": "user", "content": "Where is my parcel?"}
SYSTEM = {"role": "system", "content": "You are a clerk."}
ANSWERED = {"role": "assistant", "content": "On its way."}

LANGFUSE_PAGE = {
    "data": [
        {
            "id": "527d4aa8",
            "datasetId": "cm1",
            "datasetName": "support",
            "input": {"question": "Where is my parcel?"},
            "expectedOutput": "On its way.",
            "metadata": {"level": 2},
            "status": "ACTIVE",
            "sourceTraceId": "trace-1",
            "sourceObservationId": None,
            "createdAt": "2026-02-27T09:53:21.144Z",
            "updatedAt": "2026-02-27T09:53:21.144Z",
        },
        {"id": "gone", "input": "?", "expectedOutput": None, "metadata": None, "status": "ARCHIVED"},
    ],
    "meta": {"page": 1, "limit": 50, "totalItems": 2, "totalPages": 1},
}
LANGFUSE_CSV = (
    "id,input,expected_output,metadata,source_trace_id,source_observation_id,status\n"
    '527d4aa8,"{""question"": ""Where is my parcel?""}","On its way.","{""level"": 2}",trace-1,,ACTIVE\n'
)
PHOENIX_EXAMPLES = {
    "data": {
        "dataset_id": "RGF0YXNldDox",
        "version_id": "RGF0YXNldFZlcnNpb246MQ==",
        "examples": [
            {
                "id": "RGF0YXNldEV4YW1wbGU6MQ==",
                "input": {"question": "Where is my parcel?"},
                "output": {"answer": "On its way."},
                "metadata": {"topic": "post"},
                "updated_at": "2026-01-01T00:00:00+00:00",
            }
        ],
    }
}
PHOENIX_CSV = (
    "example_id,input_question,output_answer,metadata_topic\n"
    "RGF0YXNldEV4YW1wbGU6MQ==,Where is my parcel?,On its way.,post\n"
)
PROMPTFOO = """
prompts: ["Answer: {{question}}"]
providers: [openai:gpt-5-nano]
defaultTest:
  vars: {tone: kind}
  assert: [{type: latency, threshold: 2000}]
tests:
  - description: a parcel
    vars: {question: 'Where is my parcel?', lang: [en, de]}
    assert: [{type: equals, value: "On its way, {{lang}}"}]
  - file://more.csv
"""
PROMPTFOO_CSV = (
    "question,__expected1,__expected2,__metadata:category,__metadata:tags[],__description\n"
    '"Is it heavy?","similar(0.8): 2 kg","not-contains: ton",post,"a,b\\,c",weight\n'
    "Is it: blue?,Note: it is,,,,\n"
)
DEEPEVAL = [
    {
        "input": "Where is my parcel?",
        "actual_output": None,
        "expected_output": "On its way.",
        "retrieval_context": None,
        "context": ["Parcels take two days."],
        "name": None,
        "comments": None,
        "source_file": "faq.md",
        "tools_called": None,
        "expected_tools": [{"name": "track", "input_parameters": {"id": 7}}],
        "additional_metadata": {"quality": 0.9},
        "custom_column_key_values": None,
    },
    {
        "scenario": "An angry customer wants his money.",
        "expected_outcome": "He is told how.",
        "user_description": "impatient",
        "context": None,
        "turns": [{"role": "user", "content": "Hey"}],
    },
]
DEEPEVAL_CSV = (
    "input,actual_output,expected_output,context,retrieval_context,expected_tools\n"
    "Where is my parcel?,,On its way.,Parcels take two days.|Or three.,,track\n"
)
OPENAI_SAMPLES = [
    {"input": [SYSTEM, USER_MESSAGE], "ideal": "On its way."},
    {"input": "2+2=", "ideal": ["4", "four"]},
]
OPENAI_RUN = {
    "testing_criteria": [
        {"type": "string_check", "input": "{{sample.output_text}}", "reference": "{{ item.topic }}", "operation": "eq"}
    ],
    "data_source": {
        "type": "jsonl",
        "source": {"type": "file_content", "content": [{"item": {"headline": "Shares rise", "topic": "Markets"}}]},
    },
}
OPENAI_OUTPUT = {
    "object": "list",
    "data": [
        {
            "object": "eval.run.output_item",
            "id": "outputitem_1",
            "datasource_item_id": 5,
            "datasource_item": {"input": "Shares rise", "ground_truth": "Markets"},
            "results": [{"name": "String check", "sample": None, "passed": True, "score": 1.0}],
            "sample": {"input": [USER_MESSAGE], "output": [ANSWERED]},
        }
    ],
}
OPENAI_LOG = '{"spec": {"run_id": "1", "eval_name": "x"}}\n{"run_id": "1", "event_id": 0, "type": "match", "data": {}}'
QUESTION = {"question": "Where is my parcel?"}


def items_of(
    folder: Path, tool: str, name: str, content: object, left_out: Callable[[str], None] = lambda _: None
) -> list[dict[str, Any]]:
    """Return the items in a file of a tool."""
    file = folder / name
    text = content if isinstance(content, str) else json.dumps(content)
    if name.lower().endswith(".jsonl") and isinstance(content, list):
        text = "".join(f"{json.dumps(each)}\n" for each in content)
    file.write_text(text, encoding="utf-8")
    return [json.loads(line) for line in lines_of(file, tool, left_out)]


@pytest.mark.parametrize("name, content", [("d.json", LANGFUSE_PAGE), ("d.csv", LANGFUSE_CSV)])
def test_langfuse_keeps_ids_and_leaves_out_what_is_archived(tmp_path: Path, name: str, content: object) -> None:
    """A page of Langfuse's API and an export give the same item, and the item has its source."""
    (item,) = items_of(tmp_path, "langfuse", name, content)
    source = item.pop("source")
    assert (source["kind"], source["sourceTraceId"]) == ("langfuse", "trace-1")
    assert item == {
        "id": "527d4aa8",
        "inputs": QUESTION,
        "expectedOutputs": {"output": "On its way."},
        "metadata": {"level": 2},
    }


@pytest.mark.parametrize("name, content", [("d.json", PHOENIX_EXAMPLES), ("d.csv", PHOENIX_CSV)])
def test_phoenix_examples_and_their_csv_are_the_same(tmp_path: Path, name: str, content: object) -> None:
    """The prefix of a CSV column names the part of the example to which it belongs."""
    assert items_of(tmp_path, "phoenix", name, content) == [
        {
            "id": "RGF0YXNldEV4YW1wbGU6MQ==",
            "inputs": QUESTION,
            "expectedOutputs": {"answer": "On its way."},
            "metadata": {"topic": "post"},
        }
    ]


@pytest.mark.parametrize(
    "fields",
    [{"messages": [SYSTEM, USER_MESSAGE, ANSWERED]}, {"messages": [SYSTEM, USER_MESSAGE], "ideal": "On its way."}],
)
def test_phoenix_downloads_for_openai_are_conversations(tmp_path: Path, fields: dict[str, Any]) -> None:
    """In downloads for fine-tuning and for evals the last user message is the input, and the answer is expected."""
    assert items_of(tmp_path, "phoenix", "d.jsonl", [fields]) == [
        {
            "inputs": {"input": "Where is my parcel?", "messages": [SYSTEM, USER_MESSAGE]},
            "expectedOutputs": {"output": "On its way."},
        }
    ]


def test_promptfoo_tests_are_cases_with_all_their_variables(tmp_path: Path) -> None:
    """Defaults, lists of values, files that are named and assertions in cells are read as promptfoo reads them."""
    (tmp_path / "more.csv").write_text(PROMPTFOO_CSV, encoding="utf-8")
    english, german, heavy, blue = items_of(tmp_path, "promptfoo", "promptfooconfig.yaml", PROMPTFOO)
    assert english["inputs"] == {"tone": "kind", "question": "Where is my parcel?", "lang": "en"}
    assert [each["expectedOutputs"] for each in (english, german)] == [
        {"output": "On its way, en"},
        {"output": "On its way, de"},
    ]
    assert english["metadata"]["description"] == "a parcel"
    assert [each["type"] for each in english["metadata"]["assert"]] == ["latency", "equals"]
    assert heavy["metadata"]["assert"][1:] == [
        {"type": "similar", "value": "2 kg", "threshold": 0.8},
        {"type": "not-contains", "value": "ton"},
    ]
    assert (heavy["metadata"]["tags"], heavy["metadata"]["category"]) == (["a", "b,c"], "post")
    assert "expectedOutputs" not in heavy
    assert blue["expectedOutputs"] == {"output": "Note: it is"}


def test_deepeval_goldens_keep_context_and_calls(tmp_path: Path) -> None:
    """Of one turn and of conversations; expected calls have the shape that evaluators read."""
    golden, conversation = items_of(tmp_path, "deepeval", "d.json", DEEPEVAL)
    assert golden == {
        "inputs": {"input": "Where is my parcel?"},
        "expectedOutputs": {
            "output": "On its way.",
            "context": ["Parcels take two days."],
            "toolCalls": [{"name": "track", "arguments": {"id": 7}}],
        },
        "metadata": {"source_file": "faq.md", "quality": 0.9},
    }
    assert conversation["inputs"]["turns"] == [{"role": "user", "content": "Hey"}]
    assert conversation["expectedOutputs"] == {"output": "He is told how."}
    (row,) = items_of(tmp_path, "deepeval", "d.csv", f'"sep=,"\n{DEEPEVAL_CSV}')
    assert row["expectedOutputs"]["context"] == ["Parcels take two days.", "Or three."]
    assert row["expectedOutputs"]["toolCalls"] == [{"name": "track"}]


def test_openai_evals_of_every_age_are_read(tmp_path: Path) -> None:
    """Samples of the repository, rows whose graders have the expectation, and outputs of a run are read."""
    talk, sum_ = items_of(tmp_path, "openai-evals", "samples.jsonl", OPENAI_SAMPLES)
    assert talk["inputs"] == {"input": "Where is my parcel?", "messages": [SYSTEM, USER_MESSAGE]}
    assert sum_["expectedOutputs"] == {"output": "4", "alternatives": ["4", "four"]}
    markets = {"expectedOutputs": {"output": "Markets"}}
    assert items_of(tmp_path, "openai-evals", "run.json", OPENAI_RUN) == [
        {"inputs": {"headline": "Shares rise"}} | markets
    ]
    assert items_of(tmp_path, "openai-evals", "out.json", OPENAI_OUTPUT) == [
        {"inputs": {"input": "Shares rise"}} | markets
    ]


@pytest.mark.parametrize(
    "tool, name, content, message",
    [
        ("langfuse", "d.json", {"data": [{"id": "x"}]}, "there is no item in it: item 1 has no input"),
        ("langfuse", "d.json", {"data": [{"input": 1, "output": 2}]}, "item 1: it has an output and no expectedOutput"),
        ("langfuse", "d.csv", "id,question\n1,2\n", "line 1: there is no column `input`; the columns are 'id', 'quest"),
        ("langfuse", "d.csv", "input,id\n1,2,3\n", "line 2: 3 cells, and the header has 2; '3' is below no name"),
        (
            "langfuse",
            "d.csv",
            "sep=;\ninput;id\n1;2;3\n",
            "line 3: 3 cells, and the header has 2; '3' is below no name",
        ),
        ("langfuse", "d.csv", 'input,id\n1,2\n"3,4\n', "line 3: unexpected end of data: put a cell that holds quotes"),
        ("langfuse", "missing/d.csv", None, "there is no such file"),
        ("langfuse", "d.jsonl", '{"input": 1}\n{"input"', "line 2: it is not JSON"),
        ("phoenix", "d.json", {"examples": [{"output": {}}]}, "there is no item in it: example 1 has no input"),
        ("phoenix", "d.csv", "example_id,output_a\n1,2\n", "line 1: no column"),
        ("promptfoo", "d.yaml", "tests: [{description: x}]", "there is no item in it: test 1 has no input"),
        ("promptfoo", "d.yaml", "tests: [{vars: file://away.yaml}]", "file://away.yaml: no file is called so in"),
        (
            "promptfoo",
            "d.yaml",
            "tests: [{vars: {a: file://*/x}}]",
            "test 1: file://*/x: no file is called so in",
        ),
        ("promptfoo", "d.yaml", "tests: [{vars: {a: file://.}}]", "test 1: file://.: no file is called so in"),
        ("promptfoo", "d.yaml", f"tests: [{{vars: {{a: file://{'a' * 5000}}}}}]", "no file is called so in"),
        ("promptfoo", "d.yaml", "tests: file://d.yaml", "files in it name each other"),
        ("promptfoo", "d.json", {"results": {"version": 1, "table": {}}}, "these are results without their tests"),
        ("promptfoo", "d.yaml", "tests: file://gen.py:make", "only promptfoo can read"),
        ("promptfoo", "d.yaml", "a: [", "it is not YAML"),
        ("deepeval", "d.json", [{"expected_output": "x"}], "there is no item in it: golden 1 has no input"),
        ("openai-evals", "d.jsonl", '{"ideal": "4"}', "there is no item in it: line 1 has no input"),
        ("openai-evals", "d.jsonl", OPENAI_LOG, "line 1: it is the log of a run; import the samples"),
        ("openai-evals", "d.json", {"id": "eval_1"}, "it holds no rows"),
        ("langfuse", "d.json", {"data": []}, "there is no item in it"),
        ("promptfoo", "d.yaml", "tests: [{vars: {q: 1}, metadata: x}]", "test 1: assert must be a list, and metadata"),
        ("promptfoo", "d.yaml", "{tests: [{vars: {q: 1}}], defaultTest: {assert: 5}}", "test 1: assert must be a list"),
        ("promptfoo", "d.yaml", "results: [{testCase: {vars: {q: 2024-01-01, 5: a}}}]", "test 1: "),
        ("deepeval", "d.json", [{"input": "x", "additional_metadata": "y" * 10}, {"input": 1e400}], "not JSON"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, tool: str, name: str, content: object, message: str
) -> None:
    """A file that is something else, or has one bad row, is refused as a whole."""
    if content is None:
        with pytest.raises(BadExport, match=message):
            list(lines_of(tmp_path / name, tool))
        return
    text = content if isinstance(content, str) else json.dumps(content)
    with pytest.raises(BadExport, match=re.escape(message)):
        items_of(tmp_path, tool, name, text)


@pytest.mark.parametrize(
    "config",
    [
        {"tests": [{"vars": ["file://rows.csv"] * 3}]},
        {"tests": [{"vars": ["file://rows.csv"]}], "defaultTest": {"vars": ["file://rows.csv"] * 2}},
        {"tests": [{"vars": dict.fromkeys("abc", ["x"] * 50)}]},
    ],
)
def test_tests_of_too_many_combinations_are_refused(tmp_path: Path, config: dict[str, object]) -> None:
    """Tables, tables of the default test and lists that multiply are counted before they are combined."""
    (tmp_path / "rows.csv").write_text("q\n" + "x\n" * 50)
    with pytest.raises(BadExport, match="its variables make 125,000 combinations"):
        items_of(tmp_path, "promptfoo", "d.json", json.dumps(config))


EMPTY = {
    ("langfuse", "d.json"): {"data": [{"input": "q"}, {"id": "x", "input": None}, {"input": {}}]},
    ("langfuse", "D.CSV"): "\ufeffid;input\n1;q\n2;\n;\n",
    ("phoenix", "d.json"): {"examples": [{"input": {"q": 1}}, {"input": {}}, {"output": {"a": 1}}]},
    ("phoenix", "results.json"): [
        {"input": {"q": 1}, "reference_output": {"a": 1}},
        {"example_id": "2", "reference_output": {"a": 1}},
        {"example_id": "3", "input": None, "reference_output": {"a": 1}},
    ],
    ("phoenix", "d.csv"): "example_id,input.q,output.a\n1,q,a\n2,,a\n,,\n",
    ("promptfoo", "d.YAML"): "tests: [{vars: {q: 1}}, {assert: [{type: is-json}]}, {vars: {}}]",
    ("promptfoo", "d.csv"): "q\t__expected\nq\ta\n\ta\n\t\n",
    ("deepeval", "d.json"): [{"input": "q"}, {"input": ""}, {"expected_output": "x"}],
    ("deepeval", "d.csv"): "input,expected_output\nq,a\n,a\n,,\n",
    ("openai-evals", "d.JSONL"): [{"input": "q"}, {"ideal": "4"}, {"item": {}}],
}


@pytest.mark.parametrize("tool, name", EMPTY)
def test_what_has_no_input_is_left_out_with_its_place(tmp_path: Path, tool: str, name: str) -> None:
    """The items that have one are imported, and each that has none is counted."""
    left: list[str] = []
    content = EMPTY[tool, name]
    assert len(items_of(tmp_path, tool, name, content, left.append)) == 1
    assert [re.sub("[0-9]+", "N", place) for place in left] == [re.sub("[0-9]+", "N", left[0])] * 2
    numbers = [int(re.sub("[^0-9]", "", place)) for place in left]
    assert numbers == ([2, 3] if "line" not in left[0] or name.lower().endswith("jsonl") else [3, 4])


def test_results_of_experiments_are_the_cases_that_they_ran(tmp_path: Path) -> None:
    """The expected output of a case is the right one, and never that of the application."""
    results = [
        {
            "example_id": "e1",
            "repetition_number": each,
            "input": QUESTION,
            "reference_output": {"answer": "On its way."},
        }
        | {"output": "Lost.", "error": None}
        for each in (1, 2)
    ]
    cells = [
        {name: json.dumps(value) if name != "example_id" else value for name, value in row.items()} for row in results
    ]
    sink = io.StringIO()
    (writer := csv.DictWriter(sink, list(cells[0]))).writeheader()
    writer.writerows(cells)
    for name, content in (("d.json", results), ("d.csv", sink.getvalue())):
        assert items_of(tmp_path, "phoenix", name, content) == [
            {"id": "e1", "inputs": QUESTION, "expectedOutputs": {"answer": "On its way."}}
        ]
    run = {"testFile": "x.py", "testCases": [{"name": "t", "input": "q", "actualOutput": "b", "expectedOutput": "a"}]}
    (case,) = items_of(tmp_path, "deepeval", "latest_test_run.json", run)
    assert (case["expectedOutputs"], case["metadata"]["actual_output"]) == ({"output": "a"}, "b")


def test_results_without_ids_are_told_apart_by_their_values(tmp_path: Path) -> None:
    """Of results that name no example, each input and expected output is an item, once."""
    results = [{"input": {"q": each}, "reference_output": {"a": each}} for each in (1, 2, 1)]
    assert [each["inputs"] for each in items_of(tmp_path, "phoenix", "d.json", results)] == [{"q": 1}, {"q": 2}]


def test_a_column_of_promptfoo_without_its_key_changes_nothing(tmp_path: Path) -> None:
    """Variables and metadata are those of the other columns."""
    (item,) = items_of(tmp_path, "promptfoo", "d.csv", "q,__metadata,__metadata:k,__assert\na,b,c,d\n")
    assert (item["inputs"], item["metadata"]) == ({"q": "a"}, {"k": "c"})


def test_results_of_promptfoo_are_its_tests(tmp_path: Path) -> None:
    """The results that it wrote are the cases of their configuration, once each, and CSV of them is refused."""
    configured = {json.dumps(each, sort_keys=True) for each in written("promptfoo", "named/promptfooconfig.yaml")}
    results = written("promptfoo", "named/results.jsonl")
    assert len(results) == len(configured) == 5
    assert {json.dumps(each, sort_keys=True) for each in results} == configured
    shutil.copytree(WRITTEN / "promptfoo" / "named" / "parts", tmp_path / "parts")
    lines = (WRITTEN / "promptfoo" / "named" / "results.jsonl").read_text(encoding="utf-8").splitlines()
    document = {"evalId": "eval-1", "results": {"version": 3, "results": [json.loads(line) for line in lines]}}
    assert items_of(tmp_path, "promptfoo", "out.json", document) == results
    assert items_of(tmp_path, "promptfoo", "out.yaml", document) == results
    with pytest.raises(BadExport, match="results without their assertions; import the configuration"):
        written("promptfoo", "named/results.csv")


def test_variables_in_files_are_what_promptfoo_made_of_them(tmp_path: Path) -> None:
    """Texts, YAML, patterns and whole files of variables; a list that is not a list of texts is one value."""
    text, bob, eve, whole, numbers = written("promptfoo", "named/promptfooconfig.yaml")
    assert text["inputs"] == {"name": "Ann", "question": 'what "now", then?'}
    assert text["expectedOutputs"] == {"output": 'what "now", then?, Ann'}
    assert [each["inputs"]["name"] for each in (bob, eve)] == ['{"question":"who","name":"Bob"}', '{"name":"Eve"}']
    assert (whole["inputs"], numbers["inputs"]["numbers"]) == ({"name": "Bob", "question": "who"}, [1, 2])
    (tmp_path / "rows.csv").write_text("q;r\na;b\n;\nc;d\n", encoding="utf-8")
    (tmp_path / "more.JSON").write_text('{"s": 1}', encoding="utf-8")
    rows = items_of(tmp_path, "promptfoo", "d.yml", "tests: [{vars: [file://rows.csv, more.*]}]")
    assert [each["inputs"] for each in rows] == [{"q": "a", "r": "b", "s": 1}, {"q": "c", "r": "d", "s": 1}]


def written(tool: str, name: str) -> list[dict[str, Any]]:
    """Return the items in a file that a tool wrote itself."""
    return [json.loads(line) for line in lines_of(WRITTEN / tool / name, tool)]


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
def test_what_deepeval_writes_is_read_alike_in_each_form(form: str) -> None:
    """Arguments of tools, contexts with semicolons, ends of lines in texts, and conversations."""
    parcel, size = written("deepeval", f"goldens.{form}")
    assert parcel["expectedOutputs"] == {
        "output": "On its way.",
        "context": ["Parcels take two days.", "Or three; it depends on the weather."],
        "toolCalls": [{"name": "track", "arguments": {"id": 7}}, {"name": "notify", "arguments": {}}],
    }
    assert parcel["metadata"] == {"source_file": "faq.md", "comments": "a comment", "quality": 0.9}
    assert size == {
        "inputs": {"input": 'Größe: "42",\nbitte'},
        "metadata": {"retrieval_context": ["one; and only"], "custom_column_key_values": {"level": "3"}},
    }
    angry, novice = written("deepeval", f"conversations.{form}")
    assert angry["inputs"]["turns"] == [{"role": "user", "content": "Hey"}, {"role": "assistant", "content": "Hello"}]
    assert angry["inputs"]["context"] == ["Refunds take a week."]
    assert novice["expectedOutputs"] == {"output": "It is explained."}


def test_what_phoenix_answers_is_read() -> None:
    """Its JSON keeps numbers, its CSV has them as texts, and its JSONL holds conversations alone."""
    examples, rows = written("phoenix", "examples.json"), written("phoenix", "support.csv")
    assert [each["id"] for each in examples] == [each["id"] for each in rows]
    assert examples[1]["inputs"] == {"question": "Größe?", "n": 12345678901234567890}
    assert [each["expectedOutputs"] for each in (examples[0], rows[0])] == [{"answer": "On its way."}] * 2
    assert rows[2]["inputs"] == examples[2]["inputs"] == {"messages": [SYSTEM, USER_MESSAGE]}
    for name in ("fine-tuning.jsonl", "evals.jsonl"):
        with pytest.raises(
            BadExport, match="line 1: there are no messages; Phoenix writes other examples as JSON or CSV"
        ):
            written("phoenix", name)


def test_a_configuration_is_read_as_promptfoo_reads_it() -> None:
    """Variables, assertions and metadata of each test are those that promptfoo itself made of the file."""
    theirs = json.loads((WRITTEN / "promptfoo" / "read.json").read_text(encoding="utf-8"))
    ours = []
    for item in written("promptfoo", "promptfooconfig.yaml"):
        metadata = item["metadata"]
        asserted = metadata.pop("assert")
        metadata.pop("description", None)
        ours.append({"vars": item["inputs"], "assert": asserted, "metadata": metadata})
    assert ours == theirs


def test_what_clients_of_langfuse_and_openai_write_is_read() -> None:
    """A page of items, and a page of output items, as the official clients spell them."""
    parcel, plain = written("langfuse", "dataset-items.json")
    assert (parcel["id"], parcel["inputs"], parcel["metadata"]) == ("527d4aa8", QUESTION, {"level": 2})
    assert plain["inputs"] == {"input": "Größe?"}
    (row,) = written("openai-evals", "output-items.json")
    assert row == {"inputs": {"input": "Shares rise"}, "expectedOutputs": {"output": "Markets"}}


def test_ends_of_lines_within_a_text_are_no_ends_of_rows(tmp_path: Path) -> None:
    """JSON need not escape what Unicode takes for the end of a line, and a cell of CSV need not be quoted for it."""
    text = "one\u2028two\x0cthree\x85four"
    lines = f"{json.dumps({'input': text}, ensure_ascii=False)}\n"
    (item,) = items_of(tmp_path, "langfuse", "d.jsonl", lines)
    (row,) = items_of(tmp_path, "langfuse", "d.csv", f"id,input\n1,{text}\n")
    assert item["inputs"] == row["inputs"] == {"input": text}


@pytest.mark.parametrize(
    "tool, name, text, message",
    [
        (
            "promptfoo",
            "a.yaml",
            'tests: [{vars: {q: "\\ud800"}, assert: [{type: equals, value: a}]}]',
            "surrogate pair",
        ),
        ("promptfoo", "a.yaml", f"tests: [{{vars: {{q: {'9' * 5_000}}}}}]", "it is not YAML"),
        ("deepeval", "a.json", '[{"input": "\\ud800", "expected_output": "a"}]', "surrogate pair"),
    ],
)
def test_values_that_no_item_can_hold_are_errors(tmp_path: Path, tool: str, name: str, text: str, message: str) -> None:
    """Half of a surrogate pair and a number of thousands of digits are reported with their place."""
    (tmp_path / name).write_text(text)
    with pytest.raises(BadExport, match=message):
        list(lines_of(tmp_path / name, tool))


@pytest.fixture(name="api", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("importers") / "data") as server:
        yield server


def test_the_command_imports_what_a_tool_wrote(api: Offline, tmp_path: Path) -> None:
    """A repeated import adds nothing, an error has its place, and the command names every tool."""
    assert sorted(TOOLS) == [*_TOOLS]
    file = tmp_path / "items.json"
    file.write_text(json.dumps(LANGFUSE_PAGE), encoding="utf-8")
    command = ["datasets", "import", "moved", str(file), "--from", "langfuse", "--create", "--server", api.url]
    first, again = (CliRunner().invoke(main, command) for _ in range(2))
    assert (first.exit_code, again.exit_code) == (0, 0), first.output
    assert "moved@1: 1 items: 1 added" in first.output
    assert "the same as before" in again.output
    assert api.items("moved")[0]["source"]["kind"] == "langfuse"
    file.write_text(json.dumps([*LANGFUSE_PAGE["data"], {"id": "x", "input": None}]), encoding="utf-8")
    left = CliRunner().invoke(main, command)
    assert (left.exit_code, "left out: 1 without an input: item 3" in left.output) == (0, True), left.output
    file.write_text("[1]", encoding="utf-8")
    wrong = CliRunner().invoke(main, command)
    assert (wrong.exit_code, "item 1: an item must be an object" in wrong.output) == (1, True)
