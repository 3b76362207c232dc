"""Record programs again: `python -m tests.programs [NAME…] [--keep DIR]`, all of them without names.

Each runs in an environment of its own, with the newest releases of its packages from PyPI or npm, against a model
server of this machine that knows the truth and receives the telemetry. The environment is then removed, and a row of
the table printed: how many of the fields that its payloads carry are read right, with the others below it. A program
that cannot be recorded is named with the reason.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.conventions.programs_reading import a_store_of_programs, score_of, total
from tests.programs.running import CATALOGUE, CannotRecord, Recorded, Result, record


def line(result: Result) -> str:
    """Return the row of a program in the table."""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    return f"| `{result.program}` | {versions} | {total(result.scores)} |"


def score(recorded: Recorded, folder: Path) -> Result:
    """Read the recordings as Tracejury does, and compare them with the truth."""
    programs = dict.fromkeys(recorded.names, folder)
    with tempfile.TemporaryDirectory() as directory, a_store_of_programs(Path(directory) / "data", programs) as store:
        scores = {name: score_of(store, name, programs) for name in recorded.names}
    mistakes = [f"{name}: {mistake}" for name, one in scores.items() for mistake in one.mistakes]
    return Result(recorded.program, recorded.versions, list(scores.values()), mistakes, recorded.problems)


def main(arguments: Sequence[str]) -> int:
    """Record, and print the table; 1 if a program could not be recorded."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CATALOGUE))
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the recordings and their truth here")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in CATALOGUE]:
        parser.error(f"no program {', '.join(unknown)}; there are {', '.join(CATALOGUE)}")
    results, missing = [], []
    print("| program | libraries | fields right |\n|---|---|---|", flush=True)  # noqa: T201 - how it answers
    for name in options.names or CATALOGUE:
        with tempfile.TemporaryDirectory() as directory:
            folder = options.keep or Path(directory)
            folder.mkdir(parents=True, exist_ok=True)
            try:
                result = score(record(name, folder), folder)
            except CannotRecord as error:
                missing.append(f"{name}: not recorded: {error}")
                print(missing[-1], flush=True)  # noqa: T201
                continue
        results.append(result)
        print("\n".join([line(result), *result.mistakes, *result.problems]), flush=True)  # noqa: T201
    print(f"in all, {total([one for result in results for one in result.scores])} fields are right")  # noqa: T201
    print("\n".join(missing))  # noqa: T201
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
