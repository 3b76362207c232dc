"""Programs that fork, babble, hang and die, and leave nothing behind."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from evaluators.process import JudgeProgram, ProgramFailed, run

ENVIRONMENT = {"PATH": os.defpath}


def python(source: str) -> tuple[str, ...]:
    """Return a command that runs this program."""
    return (sys.executable, "-c", source)


def output_of(
    command: Sequence[str] | str, document: bytes = b"{}", time_limit_s: float = 10, output_bytes: int = 1 << 20
) -> bytes:
    """Run a program; return its output."""
    program = JudgeProgram(
        command=command,
        environment=ENVIRONMENT,
        folder=None,
        time_limit_s=time_limit_s,
        output_bytes=output_bytes,
    )
    return asyncio.run(run(program, document))


def is_running(pid: int) -> bool:
    """Return whether the process still runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def wait_until_gone(pid: int) -> None:
    """Wait for a killed process to end."""
    deadline = time.monotonic() + 5
    while is_running(pid):
        assert time.monotonic() < deadline, f"{pid} is still running"
        time.sleep(0.01)


def test_a_document_goes_in_and_comes_out_unchanged() -> None:
    """Megabytes of any characters reach the program unchanged, and come back unchanged."""
    document = json.dumps({"text": "é😀\u0000\r\n" * 200_000}, ensure_ascii=False).encode()
    echo = python("import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())")
    assert output_of(echo, document, output_bytes=len(document)) == document


def test_a_program_need_not_read() -> None:
    """A program that answers without reading a large document is heard."""
    assert output_of(python("print(1)"), b"x" * 8_000_000) == b"1\n"
    close = "import os, sys; os.close(0); print(2)"
    assert output_of(python(close), b"x" * 8_000_000) == b"2\n"


def test_a_program_that_hangs_is_killed() -> None:
    """A program that neither reads, prints nor ends is killed at its time limit."""
    started = time.monotonic()
    with pytest.raises(ProgramFailed, match=r"within 0\.5 s") as raised:
        output_of(python("import time; time.sleep(60)"), b"x" * 8_000_000, time_limit_s=0.5)
    assert raised.value.kind == "timeout"
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    "ending,outcome",
    [
        ("time.sleep(60)", "timeout"),
        ("print('{}'); sys.stdout.flush(); os._exit(0)", "{}\n"),
        ("os._exit(3)", "judge_error"),
    ],
)
def test_children_do_not_outlive_the_program(tmp_path: Path, ending: str, outcome: str) -> None:
    """Whether the program hangs, succeeds or fails, its children are killed, and delay nothing."""
    pids = tmp_path / "pids"
    source = f"""
import os, signal, sys, time
for _ in range(2):
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.fork()
        time.sleep(60)
    with open({str(pids)!r}, "a") as file:
        file.write(f"{{pid}}\\n")
{ending}
"""
    started = time.monotonic()
    try:
        output = output_of(python(source), time_limit_s=3).decode()
    except ProgramFailed as failure:
        output = failure.kind
    assert output == outcome
    assert time.monotonic() - started < 30
    for pid in pids.read_text(encoding="utf-8").split():
        wait_until_gone(int(pid))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such a process goes on, as the documents say")
@pytest.mark.parametrize("ends", ["print('done')", "time.sleep(600)"])
def test_a_daemon_ends_with_the_program(tmp_path: Path, ends: str) -> None:
    """One that left the group and the session, cleared its environment and lost its parent is killed like the rest."""
    file = tmp_path / "pid"
    source = f"""
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    open({str(file)!r}, "w").write(str(os.getpid()))
    os.execve("/bin/sleep", ["sleep", "120"], {{}})
while not os.path.exists({str(file)!r}): time.sleep(0.01)
{ends}
"""
    with suppress(ProgramFailed):  # late
        assert output_of(python(source), time_limit_s=3) == b"done\n"
    wait_until_gone(int(file.read_text(encoding="utf-8")))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere such a process goes on, as the documents say")
def test_a_program_ends_with_the_process_that_runs_it(tmp_path: Path) -> None:
    """A server that is killed leaves no judge behind, and no daemon of one."""
    file = tmp_path / "pid"
    judge = f"import os, time; os.setsid(); open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(120)"
    server = f"""
import asyncio, sys
from evaluators.process import JudgeProgram, run
asyncio.run(run(JudgeProgram(command=(sys.executable, "-c", {judge!r}), environment={{}}, folder=None,
    time_limit_s=100, output_bytes=10), b""))
"""
    with subprocess.Popen([sys.executable, "-c", server]) as process:
        while not file.exists() or not file.read_text(encoding="utf-8"):
            time.sleep(0.01)
        process.kill()
    wait_until_gone(int(file.read_text(encoding="utf-8")))


@pytest.mark.parametrize("chunk", [1, 1000, 5_000_000])
def test_output_has_a_bound(chunk: int) -> None:
    """A program that prints for ever is killed as soon as it has printed too much."""
    source = f"import sys\nwhile True: sys.stdout.write('x' * {chunk})"
    started = time.monotonic()
    with pytest.raises(ProgramFailed, match="more than 10,000 bytes") as raised:
        output_of(python(source), output_bytes=10_000, time_limit_s=60)
    assert raised.value.kind == "bad_output"
    assert time.monotonic() - started < 30


def test_output_up_to_the_bound_is_kept() -> None:
    """The bound itself is allowed."""
    assert len(output_of(python("import sys; sys.stdout.write('x' * 10_000)"), output_bytes=10_000)) == 10_000


def test_megabytes_of_complaints_are_read_and_forgotten() -> None:
    """Standard error cannot fill a pipe, and its end is in the message."""
    source = "import sys; sys.stderr.write('noise ' * 1_000_000 + 'the reason'); sys.exit(7)"
    with pytest.raises(ProgramFailed, match=r"exit code 7: .*the reason$") as raised:
        output_of(python(source))
    assert raised.value.kind == "judge_error"
    assert len(str(raised.value)) < 2100


@pytest.mark.parametrize("name", ["SIGKILL", "SIGSEGV", "SIGTERM"])
def test_a_signal_is_named(name: str) -> None:
    """A program that dies by a signal has failed, whatever it printed before."""
    source = f"import os, signal; print('{{}}', flush=True); os.kill(os.getpid(), signal.{name})"
    with pytest.raises(ProgramFailed, match=f"was killed by {name}") as raised:
        output_of(python(source))
    assert raised.value.kind == "judge_error"


@pytest.mark.parametrize("command", [("/no/such/program",), ("no-such-program",), ("/etc/hostname",), ("a\0b",)])
def test_what_cannot_be_started_is_told(command: tuple[str, ...]) -> None:
    """A missing program, or a file that is none, is a failure of its own kind."""
    with pytest.raises(ProgramFailed, match="cannot be started") as raised:
        output_of(command)
    assert raised.value.kind == "not_started"


def test_there_is_no_shell_unless_it_is_asked_for() -> None:
    """An argument with the shell's characters reaches the program as it is; a text is a command line."""
    show = (sys.executable, "-c", "import sys; print(sys.argv[1])", "$HOME; echo `id` > x | y")
    assert output_of(show) == b"$HOME; echo `id` > x | y\n"
    assert output_of("printf %s a | tr a b") == b"b"


def test_the_environment_is_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of this process do not reach the program."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    seen = json.loads(output_of(python("import json, os; print(json.dumps(dict(os.environ)))")))
    assert set(seen) <= {"PATH", "LC_CTYPE"}  # the second is set by Python itself


def test_a_cancelled_run_leaves_nothing(tmp_path: Path) -> None:
    """When the run is cancelled, the program is killed."""
    file = tmp_path / "pid"
    source = f"import os, time; open({str(file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    program = JudgeProgram(
        command=python(source), environment=ENVIRONMENT, folder=None, time_limit_s=60, output_bytes=10
    )

    async def start_and_cancel() -> None:
        task = asyncio.create_task(run(program, b""))
        while not file.exists() or not file.read_text(encoding="utf-8"):  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(start_and_cancel())
    wait_until_gone(int(file.read_text(encoding="utf-8")))


def test_many_runs_leave_no_descriptors_open() -> None:
    """Each run closes the descriptors it opened."""
    output_of(python("pass"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(10):
        output_of(python("pass"))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before
