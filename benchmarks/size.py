"""The size of the product: lines, modules, classes, repeated declarations, dependencies, and the CPU time of a start.

python -m benchmarks.size --starts 5
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import signal
import subprocess
import sysconfig
import tempfile
import tomllib
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
PRODUCT: Final = {
    "collector": "collector",
    "evaluators": "evaluators",
    "rules": "rules",
    "storage": "storage",
    "sdk": "sdk/python/src",
}
FACES: Final = ("collector/api", "collector/web", "collector/cli", "collector/mcp")
SHORT_LINES: Final = 100
WEBHOOK_ONLY: Final = frozenset({
    "digest_minutes", "disabled_at", "disabled_reason", "events", "failed_deliveries", "failing_since", "has_secret",
    "last_success_at", "previous_secret_until", "severities", "template",
})  # fmt: skip
LISTING: Final = 3
"""Fewer of these names in one place are a use of some fields, not another declaration of the resource."""


def main() -> None:
    """Print a Markdown table of everything that is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=5, help="Starts to measure; the median is printed. 0: none.")
    parser.add_argument("--listings", action="store_true", help="Print where a webhook's fields are listed.")
    arguments = parser.parse_args()
    if arguments.listings:
        print(*listings(), sep="\n")
        return
    rows = list(sizes())
    if arguments.starts:
        rows.append(("CPU seconds of a start, median", f"{start_cpu_s(arguments.starts):.2f}"))
    print("| measure | value |", "|---|--:|", *(f"| {name} | {value} |" for name, value in rows), sep="\n")


def sizes() -> Iterator[tuple[str, str]]:
    """Yield the measures that follow from the source."""
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    yield "lines", f"{sum(lines.values()):,}"
    for name, folder in (*PRODUCT.items(), *((face, face) for face in FACES)):
        below = sum(count for path, count in lines.items() if path.is_relative_to(ROOT / folder))
        yield f"lines in {name}", f"{below:,}"
    named = [count for path, count in lines.items() if path.name != "__init__.py"]
    yield "modules", f"{len(named):,}"
    yield f"modules under {SHORT_LINES} lines", f"{sum(count < SHORT_LINES for count in named):,}"
    yield "classes", f"{sum(isinstance(node, ast.ClassDef) for path in lines for node in ast.walk(_tree(path))):,}"
    yield "listings of a webhook's fields", str(len(list(listings())))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield "dependencies", str(len(project["dependencies"]))


def modules() -> list[Path]:
    """Return every Python file of the product."""
    return sorted(path for folder in PRODUCT.values() for path in (ROOT / folder).rglob("*.py"))


def listings(names: Collection[str] = WEBHOOK_ONLY) -> Iterator[str]:
    """Yield each class, dictionary, call or sequence that lists fields of a resource by names that only it has."""
    for place, fields in _listings():
        if len(fields.intersection(names)) >= LISTING:
            yield place


@cache
def _listings() -> list[tuple[str, frozenset[str]]]:
    """Return each place of the product that lists several names."""
    return [
        (f"{path.relative_to(ROOT)} {place}", names)
        for path in modules()
        for place, node in _nodes(_tree(path), "")
        if len(names := frozenset(map(_snake_case, _listed(node)))) >= LISTING
    ]


def _nodes(parent: ast.AST, place: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield each node with the class, function or constant that it is or is in."""
    for node in ast.iter_child_nodes(parent):
        inner = place
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                inner = f"{place}.{name}".lstrip(".")
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)) if not place:
                inner = name
            case _:
                pass
        yield inner, node
        yield from _nodes(node, inner)


def _listed(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.ClassDef(body=body):
            for part in body:
                match part:
                    case ast.AnnAssign(target=ast.Name(id=name)):
                        yield name
                    case _:
                        pass
        case ast.Dict(keys=keys):
            yield from (key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
        case ast.Call(keywords=keywords):
            yield from (keyword.arg for keyword in keywords if keyword.arg)
        case ast.Tuple(elts=items) | ast.List(elts=items) | ast.Set(elts=items):
            first = (item.elts[0] if isinstance(item, ast.Tuple) and item.elts else item for item in items)
            yield from (item.value for item in first if isinstance(item, ast.Constant) and isinstance(item.value, str))
        case _:
            pass


def start_cpu_s(starts: int) -> float:
    """Return the median CPU time of the server on an empty directory, until it prints that it is ready."""
    times = sorted(_one_start_cpu_s() for _ in range(starts))
    return times[len(times) // 2]


def _one_start_cpu_s() -> float:
    program = Path(sysconfig.get_path("scripts"), "tracejury")
    addresses = [part for name in ("--grpc", "--otlp-http", "--http") for part in (name, "127.0.0.1:0")]
    with tempfile.TemporaryDirectory() as folder:
        command = [str(program), "serve", "--data", f"{folder}/data", *addresses]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            assert process.stdout is not None
            process.stdout.readline()
            fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            process.send_signal(signal.SIGTERM)
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime, of all threads


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


if __name__ == "__main__":
    main()
