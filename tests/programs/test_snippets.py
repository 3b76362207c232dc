"""The examples of the page about capturing content: complete, and with `--snippets` executed."""

import subprocess
from pathlib import Path

import pytest

from tests.conventions.programs_reading import a_store_of_programs, expectation, score_of
from tests.corpus.record.model_server import serving
from tests.programs.running import INSTALL_S, NICE, RUN_S, environment_of, install, write
from tests.programs.server import ProgramsServer
from tests.programs.snippets import EXPORTERS, Snippet, snippets, tracing_module

SNIPPETS = snippets()
QUESTION = "Is the hose in stock?"


def test_ten_frameworks_have_an_example() -> None:
    """The page has an example for each of at least ten frameworks, and each names its packages."""
    assert len(SNIPPETS) >= 10
    assert all(bool(snippet.pip) != bool(snippet.npm) for snippet in SNIPPETS)


@pytest.mark.parametrize("snippet", [one for one in SNIPPETS if one.pip], ids=lambda snippet: snippet.name)
def test_an_example_is_python(snippet: Snippet) -> None:
    """Each example compiles, and begins with the module that exports."""
    compile(snippet.code, snippet.name, "exec")
    assert snippet.code.startswith("import tracing\n")


@pytest.mark.timeout(INSTALL_S + RUN_S)
@pytest.mark.parametrize("snippet", SNIPPETS, ids=lambda snippet: snippet.name)
def test_an_example_sends_what_is_read(snippet: Snippet, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """An example in an environment of its own sends prompt, answer and tokens, and they are read as they were."""
    if not request.config.getoption("--snippets"):
        pytest.skip("it installs packages from PyPI and npm: make test-snippets")
    place, folder = tmp_path / "environment", tmp_path / "recorded"
    place.mkdir()
    folder.mkdir()
    install({"npm": snippet.npm} if snippet.npm else {"pip": [*snippet.pip, *EXPORTERS]}, place)
    with serving(ProgramsServer()) as server:
        (place / "tracing.py").write_text(tracing_module(), encoding="utf-8")
        script = place / ("snippet.mjs" if snippet.npm else "snippet.py")
        script.write_text(snippet.code, encoding="utf-8")
        runner = "node" if snippet.npm else str(place / "bin" / "python")
        env = environment_of("snippet", place, server) | snippet.env
        command = [*NICE, runner, str(script)]
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=RUN_S, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        (name,) = write("snippet", server, folder, place)
    programs = {name: folder}
    with a_store_of_programs(tmp_path / "data", programs) as store:
        score = score_of(store, name, programs)
    (claims,) = (span for span in expectation(name, programs)["spans"].values() if span.get("span_type") == "llm")
    assert claims.keys() >= {"input", "output", "input_tokens", "output_tokens"}
    assert claims["input"] == QUESTION
    assert score.mistakes == []
