"""Description of the machine that was measured on."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Final

SYNCS: Final = 20
SYNC_BYTES: Final = 640_000  # about one request of 512 spans


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Description of the machine, for comparing figures."""

    cpu: str
    cores: int
    memory_gib: float
    system: str
    python: str
    duckdb: str
    grpcio: str
    protobuf: str
    sync_ms: float  # median time to append and fdatasync SYNC_BYTES in the directory of the measurement
    load_before: float  # one-minute load average before the first measurement


def describe(directory: Path) -> Machine:
    """Describe the machine, and the disk below the directory."""
    return Machine(
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory_gib=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / (1 << 30),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=platform.python_version(),
        duckdb=version("duckdb"),
        grpcio=version("grpcio"),
        protobuf=version("protobuf"),
        sync_ms=_sync_ms(directory / "sync"),
        load_before=os.getloadavg()[0],
    )


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or "unknown processor"


def _sync_ms(path: Path) -> float:
    took_ms = []
    with path.open("wb", buffering=0) as file:
        for _ in range(SYNCS):
            start_s = time.perf_counter()
            file.write(os.urandom(SYNC_BYTES))
            os.fdatasync(file.fileno())
            took_ms.append((time.perf_counter() - start_s) * 1e3)
    path.unlink()
    return median(took_ms)
