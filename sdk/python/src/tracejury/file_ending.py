"""Endings of file names, in any case: `RULES.YAML` is read as `rules.yaml`."""

from pathlib import Path, PurePath


def ending_of(name: str | PurePath) -> str:
    """Return how the name of a file ends: in lower case, and without the dot."""
    return PurePath(name).suffix.lower().removeprefix(".")


def files_ending(folder: Path, *endings: str) -> list[Path]:
    """Return the files in a folder with such an ending, by name; none if there is no such folder."""
    return sorted(each for each in folder.iterdir() if ending_of(each) in endings) if folder.is_dir() else []
