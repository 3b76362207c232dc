"""Processes of the product and of the tests, forked instead of started: a start costs three seconds of CPU for imports.

`start` and `run` are `subprocess.Popen` and `subprocess.run` for those programs. Each process of tests has two zygotes
(tests/zygote.py), made when they are first needed: one that has imported the server and the command line, and one that
has imported what the server's child processes run. Of commands in front of a program, a new process does itself what
`nsenter --mount` and `prlimit --nofile` do. What needs more than a fork can give, another command in front, other
settings of the interpreter, is started.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final, Self, TypeAlias, cast

from storage import child_process
from tests.source_tree import ROOT
from tests.zygote import Order

PIPE: Final = subprocess.PIPE
TRACEJURY: Final = str(Path(sysconfig.get_path("scripts"), "tracejury"))

Stream: TypeAlias = int | IO[Any] | None
Arguments: TypeAlias = Sequence[str | Path]

_COMMAND: Final = "import sys\nfrom collector.cli.main import main\nsys.exit(main())"
_IMPORTED: Final[Mapping[str, Sequence[str]]] = {
    "programs": (
        "collector.program",
        "collector.cli.main",
        "collector.sample",
        "tests.loaded_api",
        "collector.mcp.server",
        "collector.web.site",
    ),
    "children": (
        "collector.live.jobs.work.child",
        "collector.live.jobs.work.case_child",
        "collector.quack.child",
        "storage.query.query_child",
    ),
}
_SET: Final[Mapping[str, Mapping[str, str]]] = {
    "programs": {},
    "children": {"ARROW_DEFAULT_MEMORY_POOL": "system"},  # as `ALLOCATOR` says
}
_EARLY: Final = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "ARROW_", "OPENBLAS_", "OMP_", "GRPC_", "PROTOCOL_BUFFERS_")
"""Variables that the interpreter, or an import, reads: who wants other ones is started."""

_places: dict[str, str] = {}
_making = threading.Lock()


class ForkedProcess:
    """The part of `subprocess.Popen` that tests and the product use, of a process that a zygote has forked."""

    def __init__(self, arguments: Sequence[str], connection: socket.socket) -> None:
        """Take the zygote's `connection`, over which come the process id and, at the end, the exit code."""
        self.args = arguments
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._telling = connection.detach()  # closed with this object: threads may wait for it
        self._reading = threading.Lock()
        self.pid = int(_line(self._telling))

    def __del__(self) -> None:
        """Close the connection: no thread waits, since it would hold this object."""
        os.close(self._telling)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self.stdout, self.stderr, self.stdin):
            if pipe is not None:
                pipe.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, once there is one.

        Raises:
            subprocess.TimeoutExpired: there is none by then.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:  # noqa: A002 - as Popen has it
        """Write `input`, then read the outputs to their end.

        Raises:
            subprocess.TimeoutExpired: it goes on; it may be asked again.
        """
        outputs: dict[str, Any] = {}

        def read(name: str, pipe: IO[Any]) -> None:
            outputs[name] = pipe.read()

        pipes = {"stdout": self.stdout, "stderr": self.stderr}
        threads = [
            threading.Thread(target=read, args=(name, pipe), daemon=True) for name, pipe in pipes.items() if pipe
        ]
        for thread in threads:
            thread.start()
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                if input is not None:
                    self.stdin.write(input)
                self.stdin.close()
        self.wait(timeout)
        for thread in threads:
            thread.join()
        self.__exit__()
        return outputs.get("stdout"), outputs.get("stderr")

    def send_signal(self, number: int) -> None:
        """Send it, unless the process has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            ending = select.poll()  # one for each thread that looks
            ending.register(self._telling, select.POLLIN)
            if not ending.poll(None if timeout is None else timeout * 1000):
                return self.returncode
            with self._reading:
                if self.returncode is None:
                    line = _line(self._telling)
                    assert line, "the zygote has ended"
                    self.returncode = int(line)
        return self.returncode


def start(
    command: Arguments,
    *,
    stdin: Stream = None,
    stdout: Stream = None,
    stderr: Stream = None,
    text: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
) -> "subprocess.Popen[Any]":
    """Start a command: forked if it runs the product, a text of Python, or a module of the tests."""
    arguments = [str(each) for each in command]
    environment = dict(os.environ if env is None else env)
    kind = "children" if arguments[:3] == [sys.executable, "-P", "-c"] else "programs"
    order = _order(kind, arguments, environment, str(Path(cwd or ".").absolute()))
    if order is None:
        return subprocess.Popen(arguments, stdin=stdin, stdout=stdout, stderr=stderr, text=text, env=env, cwd=cwd)
    ends = [_Ends.of(stream, number) for number, stream in enumerate((stdin, stdout, stderr))]
    try:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(_zygote(kind))
        order.send(connection, [each.theirs for each in ends])
        process = ForkedProcess(arguments, connection)
    finally:
        for each in ends:
            each.let_go()
    process.stdin, process.stdout, process.stderr = (each.file(text=text) for each in ends)
    return cast("subprocess.Popen[Any]", process)


def run(
    command: Arguments,
    *,
    input: str | None = None,  # noqa: A002 - as subprocess has it
    timeout: float | None = None,
    check: bool = False,
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a command and capture its outputs as text.

    Raises:
        subprocess.TimeoutExpired: it took too long, and was killed.
        subprocess.CalledProcessError: its exit code is not 0, and `check` asks for that.
    """
    stdin = None if input is None else PIPE
    with start(command, stdin=stdin, stdout=PIPE, stderr=PIPE, text=True, env=env, cwd=cwd) as process:
        try:
            output, errors = process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    done = subprocess.CompletedProcess(command, process.returncode, output, errors)
    if check:
        done.check_returncode()
    return done


def command(*arguments: str | Path) -> list[str]:
    """Return a command that another program can start in place of this one: 40 ms of CPU, not seconds."""
    order = _order("programs", [str(each) for each in arguments], dict(os.environ), "")
    assert order is not None, "only what `start` forks"
    parts = {name: value for name, value in asdict(order).items() if name not in {"environment", "folder"}}
    source = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from tests.stand_in import main; main()"
    return [sys.executable, "-S", "-c", source, _zygote("programs"), json.dumps(parts)]


def children() -> str:
    """Return the address of the zygote of child processes, for other processes."""
    return _zygote("children")


def fork_children(place: str = "") -> None:
    """Let a server in this process fork its child processes from now on, by the zygote at `place`."""
    if place:
        _places["children"] = place

    def start_program(program: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-P", "-c", child_process.ALLOCATOR + program]
        # What an import reads stays, though a child of the product does not get all of it: else none would be forked.
        early = {name: value for name, value in os.environ.items() if name.startswith(_EARLY)}
        return start(command, stdin=PIPE, stdout=PIPE, env=early | child_process.child_environment(os.environ))

    child_process.start_program = start_program


class _Ends:
    """The two ends of a standard stream of a new process."""

    def __init__(self, theirs: int, ours: int | None, number: int, *, is_owned: bool) -> None:
        self.theirs = theirs
        self._ours = ours
        self._number = number
        self._is_owned = is_owned

    @classmethod
    def of(cls, stream: Stream, number: int) -> Self:
        """Create the end that `subprocess` would for this value."""
        if stream is None:
            return cls(number, None, number, is_owned=False)
        if stream == PIPE:
            reading, writing = os.pipe()
            theirs, ours = (reading, writing) if number == 0 else (writing, reading)
            return cls(theirs, ours, number, is_owned=True)
        if stream == subprocess.DEVNULL:
            return cls(os.open(os.devnull, os.O_RDWR), None, number, is_owned=True)
        return cls(stream if isinstance(stream, int) else stream.fileno(), None, number, is_owned=False)

    def let_go(self) -> None:
        """Close the end that the new process has."""
        if self._is_owned:
            os.close(self.theirs)

    def file(self, *, text: bool) -> IO[Any] | None:
        """Return our end."""
        if self._ours is None:
            return None
        mode = "w" if self._number == 0 else "r"
        return os.fdopen(self._ours, mode if text else f"{mode}b")


def _line(descriptor: int) -> bytes:
    """Read one line, and nothing of the next one; empty at the end."""
    line = b""
    while byte := os.read(descriptor, 1):
        if byte == b"\n":
            break
        line += byte
    return line


def _order(kind: str, arguments: Sequence[str], environment: dict[str, str], folder: str) -> Order | None:
    """Translate a command into an order for a zygote; None if the command has to be executed."""
    if _early(environment) != _early(os.environ):
        return None
    mounts, open_files = 0, list[int]()
    match arguments:
        case ["nsenter", target, "--mount", *behind]:
            mounts, arguments = int(target.removeprefix("--target=")), behind
        case ["prlimit", limit, *behind]:
            open_files, arguments = [int(each) for each in limit.removeprefix("--nofile=").split(":")], behind
        case _:
            pass
    paths = [each for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    match arguments:
        case [program, *_] if program == TRACEJURY:
            source, module, argv, first = _COMMAND, "", list(arguments), [str(Path(TRACEJURY).parent)]
        case [sys.executable, "-P", "-c", program, *more]:
            source, module, argv, first = program, "", ["-c", *more], []
        case [sys.executable, "-c", program, *more]:
            source, module, argv, first = program, "", ["-c", *more], [""]
        case [sys.executable, "-m", program, *more] if program.startswith(("tests.", "benchmarks.")):
            source, module, argv, first = "", program, [program, *more], [folder]
        case _:
            return None
    return Order(
        source=source,
        module=module,
        arguments=argv,
        path=[*first, *paths],
        environment=environment,
        folder=folder,
        children=children() if kind == "programs" and not mounts else "",  # the zygote of those sees other mounts
        mounts=mounts,
        open_files=open_files,
    )


def _early(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_EARLY) and name not in {"PYTHONPATH", "ARROW_DEFAULT_MEMORY_POOL"}
    }


def _zygote(kind: str) -> str:
    with _making:
        if kind not in _places:
            _places[kind] = _start_zygote(kind)
        return _places[kind]


def _start_zygote(kind: str) -> str:
    place = f"{tempfile.mkdtemp(prefix='zygote-')}/{kind}"  # it removes the folder when it ends
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(128)
        command = [sys.executable, "-c", "from tests.zygote import main; main()", str(listener.fileno())]
        process = subprocess.Popen(
            [*command, *_IMPORTED[kind]],
            cwd=ROOT,
            env=os.environ | _SET[kind],
            stdin=PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
    atexit.register(_end, process)
    return place


def _end(process: "subprocess.Popen[bytes]") -> None:
    assert process.stdin is not None
    process.stdin.close()
    process.wait()
