"""A rule with several problems: all of them are reported at once, wherever it comes from."""

from pathlib import Path

from tests.live import a_client
from tests.serving import a_server, run

WRONG = """\
nme: x
evaluator: tool_policy
sampleRate: 4
config:
  forbiden: [steal]
tools: 7
expected:
  toolCalls: [{nam: x}]
"""
KEYS = [(1, "nme"), (1, "name"), (3, "sampleRate"), (4, "config"), (6, "tools"), (7, "expected")]
LAST = """\
name: x
project: other
evaluator: tool_error
config: {treatBlank: true}
connectionId: nowhere
"""


def test_a_file_with_several_problems_reports_all_of_them(tmp_path: Path) -> None:
    """Those of its keys and those of its evaluator come together, by the command and by the server that follows it."""
    folder = tmp_path / "rules"
    folder.mkdir()
    file = folder / "wrong.yaml"
    file.write_text(WRONG)
    with a_server(tmp_path / "data", rules=folder) as server:
        where = ("--server", server.http)
        shown = run("rules", "test", file, *where).output
        assert [each for each in KEYS if f"{file}:{each[0]}: {each[1]}: " in shown] == KEYS
        assert "forbiden: unknown key; did you mean forbidden?" in shown
        with a_client() as client:
            problems = client.get(f"http://{server.http}/api/v1/status").json()["rules"]["problems"]
        assert [(each["line"], each["key"]) for each in problems] == KEYS


def test_a_request_with_several_problems_reports_all_of_them(tmp_path: Path) -> None:
    """The text is checked as far as it can be read; a text that can be read, against what there is."""
    with a_server(tmp_path / "data") as server, a_client() as client:

        def problems(text: str) -> list[tuple[int, str]]:
            path = f"http://{server.http}/api/v1/projects/shop/trace-eval-rules"
            answer = client.post(path, content=text, headers={"content-type": "text/yaml"})
            assert answer.status_code == 400, answer.text
            return [(each["line"], each["key"]) for each in answer.json()["problems"]]

        assert problems(WRONG) == KEYS
        assert problems(LAST) == [(2, "project"), (4, "config"), (5, "connectionId")]


def test_a_key_that_is_wrong_is_not_reported_again_by_what_needs_it(tmp_path: Path) -> None:
    """An evaluator that is not named, or whose template is missing, has no problems of its configuration."""
    nothing, missing = tmp_path / "nothing.yaml", tmp_path / "missing.yaml"
    nothing.write_text("name: x\nsampleRate: 4\n")
    missing.write_text("name: x\nevaluator: llm_judge\nsampleRate: 4\nconfig: {templateFile: none.txt}\n")
    for file, keys in ((nothing, ["evaluator", "sampleRate"]), (missing, ["sampleRate", "config.templateFile"])):
        shown = run("rules", "test", file, "--data", tmp_path / "data").output.removeprefix("Error: ").strip()
        assert [line.split(": ")[1] for line in shown.splitlines()] == keys
