"""Records dialects again: `python -m tests.corpus.record [DIALECT…]`, all of them without arguments.

Each is recorded in an environment of its own with the pinned libraries of its script, which come from the package
registries; then nothing leaves the machine. Vercel's and VoltAgent's need `npm` and `node`. A dialect that
fails is reported at the end, and stops no other.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The way to record one dialect."""

    script: str
    packages: str  # the file that pins them
    arguments: Sequence[str] = ()


def _plain(name: str, *arguments: str, packages: str = "") -> Recipe:
    return Recipe(script=f"record_{name}", packages=f"record_{packages or name}.txt", arguments=arguments)


def _vercel(version: str) -> Recipe:
    return Recipe(script="record_vercel", packages=f"record_vercel_{version}.json", arguments=(version,))


RECIPES: Mapping[str, Recipe] = {
    "adk-1": _plain("adk", "1", packages="adk_1"),
    "adk-2": _plain("adk", "2", packages="adk_2"),
    "langsmith": _plain("langsmith"),
    "litellm": _plain("litellm"),
    "logfire": _plain("logfire"),
    "mlflow": _plain("mlflow"),
    "openinference-anthropic": _plain("anthropic", "openinference"),
    "openinference-haystack": _plain("openinference_haystack"),
    "openinference-langchain": _plain("openinference_langchain"),
    "openinference-openai": _plain("openinference_openai"),
    "openinference-openai-agents": _plain("openinference_openai_agents"),
    "openinference-smolagents": _plain("openinference_smolagents"),
    "openllmetry-anthropic": _plain("anthropic", "openllmetry"),
    "openllmetry-openai": _plain("openllmetry_openai"),
    "openllmetry-openai-prompts": _plain("openllmetry_openai_prompts"),
    "otel-openai-v2": _plain("otel_openai_v2"),
    "otel-openai-v2-events": _plain("otel_openai_v2_latest", "EVENT_ONLY", packages="otel_openai_v2"),
    "otel-openai-v2-spans": _plain("otel_openai_v2_latest", "SPAN_ONLY", packages="otel_openai_v2"),
    "pydantic-ai": _plain("pydantic_ai"),
    "pydantic-ai-1-v1": _plain("pydantic_ai_1", "1"),
    "pydantic-ai-1-v2": _plain("pydantic_ai_1", "2"),
    "strands": _plain("strands"),
    "strands-latest": _plain("strands", "latest"),
    "traceloop": _plain("traceloop"),
    "vercel-4": _vercel("4"),
    "vercel-5": _vercel("5"),
    "vercel-7": _vercel("7"),
    "voltagent": Recipe(script="record_voltagent", packages="record_voltagent.json"),
}
"""By the folder of the corpus that each writes."""

SESSIONS: Mapping[str, Recipe] = {
    "session-adk": _plain("sessions", "adk", packages="adk_2"),
    "session-langgraph": _plain("sessions", "langgraph", packages="openinference_langchain"),
    "session-openai-agents": _plain("sessions", "openai-agents", packages="openinference_openai_agents"),
    "session-vercel": Recipe(script="record_sessions", packages="record_vercel_5.json", arguments=("vercel",)),
}
"""Sessions of several turns, each a file of the corpus."""

EVERYTHING: Mapping[str, Recipe] = {**RECIPES, **SESSIONS}


def steps(recipe: Recipe, folder: Path) -> Sequence[tuple[Sequence[str], Path]]:
    """List the commands that record a dialect, each with its working directory; packages go to the folder."""
    script = ["-m", f"tests.corpus.record.{recipe.script}"]
    if recipe.packages.endswith(".json"):  # programs of Node: the script runs in the environment of this process
        installed = (["npm", "install", "--no-audit", "--no-fund"], folder)
        return [installed, ([sys.executable, *script, str(folder), *recipe.arguments], ROOT)]
    python = str(folder / "bin" / "python")
    install = [python, "-m", "pip", "install", "--quiet", "--requirement", str(FOLDER / recipe.packages)]
    made = [sys.executable, "-m", "venv", str(folder)]
    return [(made, ROOT), (install, ROOT), ([python, *script, *recipe.arguments], ROOT)]


def record(dialect: str) -> str | None:
    """Record one dialect; why it could not be, or None."""
    recipe = EVERYTHING[dialect]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if recipe.packages.endswith(".json"):
            shutil.copy(FOLDER / recipe.packages, folder / "package.json")
        for command, where in steps(recipe, folder):
            try:
                subprocess.run(command, cwd=where, check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                return str(error)
    return None


def main(dialects: Sequence[str]) -> int:
    """Record some dialects, or all; return 1 if one could not be recorded."""
    unknown = [name for name in dialects if name not in EVERYTHING]
    if unknown:
        sys.stderr.write(f"there is no {', '.join(unknown)}; there are {', '.join(EVERYTHING)}\n")
        return 2
    failures = {name: why for name in dialects or EVERYTHING if (why := record(name)) is not None}
    for name, why in failures.items():
        sys.stderr.write(f"{name} was not recorded: {why}\n")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
