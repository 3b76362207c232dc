"""What has changed within a day, so that what is about it can be tested longer."""

import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

_DAY_S: Final = 24 * 60 * 60


def changed_files(repository: Path) -> frozenset[str] | None:
    """The files that differ from the last commit a day before the newest one; None where the history does not say.

    The day is counted by the commits themselves: what a commit is tested with does not depend on when that is done.
    """
    newest = _git(repository, "log", "-1", "--format=%ct")
    if not newest:
        return None
    before = _git(repository, "rev-list", "-1", f"--before={int(newest) - _DAY_S}", "HEAD")
    if not before:
        return None
    return frozenset(_git(repository, "diff", "--name-only", before).splitlines())


def is_about(changed: Collection[str], paths: Sequence[str]) -> bool:
    """Whether a file that changed is one of these, or lies in one of these folders."""
    # The statements of a folder of `storage` lie in a folder of their own.
    statements = [path.replace("storage/", "storage/queries/", 1) for path in paths if path.startswith("storage/")]
    return any(file == path or file.startswith(f"{path}/") for file in changed for path in [*paths, *statements])


def _git(repository: Path, *arguments: str) -> str:
    """What git says; nothing where there is no git, or no history."""
    try:
        done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
