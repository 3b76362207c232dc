"""Disks that a test may fill, seen only by processes that it puts there; and disks that fail or take their time."""

import errno
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_MOUNT_TMPFS = 'while [ $# -gt 0 ]; do mkdir -p "$1" && mount -t tmpfs -o "size=$2" tmpfs "$1" || exit; shift 2; done'
_MOUNT_READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit'


@dataclass(slots=True)
class Disks:
    """Mounts in a namespace of their own, which lasts as long as this object."""

    inside: Sequence[str]  # the command that runs another one inside the namespace
    _root: Path  # of that namespace, as this process sees it
    _fillers: dict[Path, Path] = field(default_factory=dict)

    def seen(self, path: Path) -> Path:
        """Map a path inside the mount to the path that this process sees."""
        return self._root / path.relative_to("/")

    def free_bytes(self, mount: Path) -> int:
        """Return the room that is left on a disk."""
        status = os.statvfs(self.seen(mount))
        return status.f_bavail * status.f_frsize

    def fill(self, mount: Path, *, leaving: int = 0) -> None:
        """Use up a disk but for some bytes."""
        filler = self.seen(mount) / "filler"
        with filler.open("wb", buffering=0) as file:
            for step in (1 << 20, 1 << 12):  # others may be writing as well
                while self.free_bytes(mount) >= leaving + step and _grow(file.fileno(), step):
                    pass
        self._fillers[mount] = filler

    def give_back(self, mount: Path, nbytes: int | None = None) -> None:
        """Make room again: some, or all that was filled."""
        filler = self._fillers[mount]
        if nbytes is None:
            filler.unlink()
        else:
            os.truncate(filler, max(filler.stat().st_size - nbytes, 0))


@contextmanager
def faulty_syncs(process: int, fault: str) -> Iterator[None]:
    """Inject strace's `fault` into a process's `fdatasync`; skip the test if that is not allowed."""
    if not shutil.which("strace"):
        pytest.skip("strace is needed to make a disk slow or faulty")
    command = ["strace", "-f", "-qq", "-e", "trace=fdatasync", "-e", f"inject=fdatasync:{fault}", "-p", str(process)]
    with tempfile.TemporaryFile() as log:
        tracer = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            while "TracerPid:\t0\n" in Path(f"/proc/{process}/status").read_text():
                if tracer.poll() is not None:
                    log.seek(0)
                    pytest.skip(f"tracing is not allowed here: {log.read().decode().strip()}")
                time.sleep(0.02)
            yield
        finally:
            tracer.terminate()
            tracer.wait()


def _grow(file: int, nbytes: int) -> bool:
    """Make a file longer, if there is room."""
    try:
        os.posix_fallocate(file, os.fstat(file).st_size, nbytes)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False
    return True


@contextmanager
def small_disks(sizes: Mapping[Path, int]) -> Iterator[Disks]:
    """Mount a tmpfs of this size at each path; skip the test if mounting is not allowed."""
    with _mounted(_MOUNT_TMPFS, [text for path, size in sizes.items() for text in (str(path), str(size))]) as disks:
        yield disks


@contextmanager
def read_only(directory: Path) -> Iterator[Disks]:
    """Mount a directory read-only, also for root; skip the test if mounting is not allowed."""
    with _mounted(_MOUNT_READ_ONLY, [str(directory)]) as disks:
        yield disks


@contextmanager
def _mounted(script: str, arguments: Sequence[str]) -> Iterator[Disks]:
    if not (shutil.which("unshare") and shutil.which("nsenter")):
        pytest.skip("unshare and nsenter are needed to mount a disk")
    is_root = os.geteuid() == 0
    own = ["--mount"] if is_root else ["--mount", "--user", "--map-root-user"]
    holder = subprocess.Popen(
        ["unshare", *own, "sh", "-c", f"{script}; echo ready; exec cat", "sh", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        if holder.stdout.readline() != b"ready\n":
            assert holder.stderr is not None
            pytest.skip(f"mounting a disk is not allowed here: {holder.stderr.read().decode().strip()}")
        inside = ["nsenter", f"--target={holder.pid}", "--mount"]
        yield Disks(
            [*inside, *([] if is_root else ["--user", "--preserve-credentials"])], Path(f"/proc/{holder.pid}/root")
        )
    finally:
        holder.kill()
        holder.communicate()
