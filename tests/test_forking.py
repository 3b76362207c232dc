"""A forked process in tests behaves like a started one, and only saves the imports."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.disks import read_only
from tests.live import ANY_PORTS, TRACEJURY, environment, until
from tests.source_tree import ROOT

PROGRAM = """
import json, os, random, resource, signal, sys, threading
told = {
    "pid": os.getpid(),
    "zygote": os.getppid(),
    "folder": os.getcwd(),
    "arguments": sys.argv,
    "environment": dict(os.environ),
    "files": sorted(int(each) for each in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{each}")),
    "interrupted": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "ended": signal.getsignal(signal.SIGCHLD) == signal.SIG_DFL,
    "threads": len(os.listdir("/proc/self/task")),
    "random": random.random(),
    "name": __name__,
    "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
}
print(json.dumps(told))
"""


def describe_fork(*arguments: str, **how: Any) -> dict[str, Any]:
    """Run the program in a forked process; return its description of itself."""
    done = forking.run([sys.executable, "-c", PROGRAM, *arguments], check=True, **how)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_a_forked_process_is_its_own(tmp_path: Path) -> None:
    """It has its process id, folder, arguments, environment, signals and streams, one thread, and nothing else open."""
    environ = environment({"OF_ITS_OWN": "yes"})
    one, two = (describe_fork("a", "b c", env=environ, cwd=tmp_path) for _ in range(2))
    assert (one["folder"], one["arguments"], one["environment"]) == (str(tmp_path), ["-c", "a", "b c"], environ)
    assert (one["interrupted"], one["ended"], one["threads"], one["name"]) == (True, True, 1, "__main__")
    assert one["files"] == [0, 1, 2]
    assert one["pid"] not in {two["pid"], os.getpid()}
    assert one["random"] != two["random"]


@pytest.mark.parametrize("kind", ["programs", "children"])
def test_what_forks_has_nothing_that_a_fork_tears(kind: str) -> None:
    """It has no file or address open but its own, so no database and no channel."""
    options = ["-P"] if kind == "children" else []
    done = forking.run([sys.executable, *options, "-c", PROGRAM], check=True)
    zygote = Path(f"/proc/{json.loads(done.stdout)['zygote']}")
    opened = [str(each.readlink()) for each in (zygote / "fd").iterdir() if int(each.name) > 2]
    assert [each for each in opened if not each.startswith("socket:")] == []
    assert "tests.zygote" in (zygote / "cmdline").read_text()


def test_a_forked_process_ends_as_others_do() -> None:
    """With the code that it ends with, that of an exception, or the signal that ended it."""

    def code(program: str) -> int:
        return forking.run([sys.executable, "-c", program]).returncode

    assert [code("import sys; sys.exit(3)"), code("import os; os._exit(4)"), code("1"), code("1 / 0")] == [3, 4, 0, 1]
    failed = forking.run([sys.executable, "-c", "1 / 0"])
    assert failed.stderr.endswith("ZeroDivisionError: division by zero\n")
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
        command = [sys.executable, "-c", "import time; print('there', flush=True); time.sleep(600)"]
        with forking.start(command, stdout=forking.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            assert (process.stdout.readline(), process.poll()) == ("there\n", None)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.01)
            process.send_signal(number)
        assert process.returncode == -number
        process.kill()  # which has ended by now


def test_a_program_of_others_can_start_a_forked_process(tmp_path: Path) -> None:
    """The forked process has the arguments, environment, folder and streams, gets the signals, and ends alike."""
    command = forking.command(sys.executable, "-c", PROGRAM, "a", "b c")
    environ = environment({"OF_ITS_OWN": "yes"})
    done = subprocess.run([*command, "d"], env=environ, cwd=tmp_path, capture_output=True, text=True, check=True)
    document = json.loads(done.stdout)
    assert (document["folder"], document["arguments"]) == (str(tmp_path), ["-c", "a", "b c", "d"])
    assert (document["environment"], document["files"]) == (environ, [0, 1, 2])
    waiting = forking.command(sys.executable, "-c", "import sys; print('there', flush=True); sys.exit(len(input()))")
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.communicate("four\n")[0] == "there\n"
    assert process.returncode == 4
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        process.terminate()
        assert process.wait() == -signal.SIGTERM  # before its input is closed, which ends it too


def test_pipes_carry_what_they_are_given() -> None:
    """Standard input ends when it is closed, and output arrives to the last byte written at exit."""
    program = "import atexit, sys; atexit.register(print, 'last'); print(sys.stdin.read().upper(), end='')"
    done = forking.run([sys.executable, "-c", program], input="é\n" * 100_000, timeout=60)
    assert (done.returncode, done.stdout) == (0, "É\n" * 100_000 + "last\n")


def test_a_module_and_the_command_are_run_as_programs(tmp_path: Path) -> None:
    """`python -m` runs a module of the tests, and the command prints the output of the installed one."""
    listed = forking.run([sys.executable, "-m", "tests.quick", "--all"], cwd=ROOT, check=True).stdout
    assert "tests/test_forking.py" not in listed
    assert "tests/test_statistics_formulas.py" in listed
    wrong = [TRACEJURY, "serve", *ANY_PORTS, "--data", str(tmp_path), "--unknown"]
    forked = forking.run(wrong, env=environment())
    started = subprocess.run(wrong, env=environment(), capture_output=True, text=True, check=False)
    assert (forked.returncode, forked.stdout, forked.stderr) == (2, started.stdout, started.stderr)


def test_what_is_in_front_of_it_is_done_by_the_new_process_alone(tmp_path: Path) -> None:
    """It sees the mounts, or has the limits, that `nsenter` and `prlimit` would give it, and no other process does."""
    program = "import sys; from pathlib import Path; Path(sys.argv[1], 'made').touch()"
    with read_only(tmp_path) as disks:
        inside, outside = ([*front, sys.executable, "-c", program, str(tmp_path)] for front in (disks.inside, []))
        refused = forking.run(inside)
        assert (refused.returncode, "ead-only file system" in refused.stderr) == (1, True)
        assert forking.run(outside).returncode == 0
    limited = forking.run(["prlimit", "--nofile=100:200", sys.executable, "-c", PROGRAM], check=True)
    assert json.loads(limited.stdout)["open_files"] == [100, 200]
    assert json.loads(limited.stdout)["zygote"] == describe_fork()["zygote"]
    assert describe_fork()["open_files"] != [100, 200]


@pytest.mark.parametrize(
    "command, more",
    [
        (["env", sys.executable, "-c", PROGRAM], {}),
        ([sys.executable, "-c", PROGRAM], {"PYTHONHASHSEED": "7"}),
        ([sys.executable, "-c", PROGRAM], {"MALLOC_ARENA_MAX": "1"}),
    ],
    ids=["a command in front", "the interpreter", "the allocator"],
)
def test_what_a_fork_cannot_give_is_started(command: list[str], more: dict[str, str]) -> None:
    """A command in front of it, or variables that are read before the program is, need an interpreter of its own."""
    done = forking.run(command, env=environment(more), check=True)
    assert json.loads(done.stdout)["zygote"] == os.getpid()


def test_children_of_a_forked_server_are_forked_and_end_with_it() -> None:
    """They come from the zygote that has imported their modules, and see the end of their input when it is killed."""
    program = (
        "import time; from storage import child_process; "
        "child = child_process.start_program('import sys; print(1, flush=True); sys.stdin.read()'); "
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(600)"
    )
    with forking.start([sys.executable, "-c", program], stdout=forking.PIPE, text=True) as process:
        assert process.stdout is not None
        child = Path(f"/proc/{int(process.stdout.readline())}")
        assert "tests.zygote" in (child / "cmdline").read_text()
        process.kill()
    until(child.exists, lambda exists: not exists)


@pytest.mark.parametrize(
    "message", [b"", b"\x02", b"\x40\x00\x00\x00{}"], ids=["nothing", "half a length", "half a text"]
)
def test_who_ends_before_all_is_said_ends_nobody_else(message: bytes) -> None:
    """A server that is killed while it asks for a child leaves the zygote to all others."""
    with socket.socket(socket.AF_UNIX) as asker:
        asker.connect(forking.children())
        if message:
            socket.send_fds(asker, [message], [1])
    child = forking.start([sys.executable, "-P", "-c", "print(1)"], stdout=forking.PIPE, text=True)
    assert child.communicate() == ("1\n", None)
