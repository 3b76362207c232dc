"""Failed tests of the last run, once more, each with the machine to itself: `make test` ends as these do.

Most tests start processes, and share the processors with those beside them; one in some thousands fails for want of
time. One that fails alone as well fails for good. Who needs a second time is named, and is a defect to be mended.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_FAILED: Final = Path(".pytest_cache/v/cache/lastfailed")
_MOST: Final = 8
"""So many may fail for want of time, of more than ten thousand: more than that is no accident. On a machine that was
busy with others there were five, each for a reason of its own, and each passed alone."""
_TESTS_FAILED: Final = 1  # the exit code of pytest where it ran to its end


def unsteady(exit_code: int, failed: Mapping[str, bool]) -> Sequence[str]:
    """The tests that get a second time; none where the run was cut off, files could not be read, or too many failed."""
    if exit_code != _TESTS_FAILED or len(failed) > _MOST or not all("::" in name for name in failed):
        return []
    return sorted(failed)


def main(exit_code: int, options: Sequence[str] = ()) -> int:
    """Run them, with the options that they had; the exit code of `make test`."""
    failed = json.loads(_FAILED.read_text(encoding="utf-8")) if _FAILED.exists() else {}
    names = unsteady(exit_code, failed)
    if not names:
        return exit_code
    sys.stdout.write("\n".join(["These failed beside others, and run once more, alone:", *names, ""]))
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options, *names]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
