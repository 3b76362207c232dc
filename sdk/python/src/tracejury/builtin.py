"""Evaluators of the program `tracejury`, run locally or on a server, with the same fingerprints."""

import atexit
import itertools
import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import IO, Any, Final, Literal

from tracejury.dataset import Example
from tracejury.deciding import decisions
from tracejury.judge_function import calls_functions, with_judges
from tracejury.plain import plain
from tracejury.score import Score

_COMMAND: Final = ("tracejury", "evaluate", "--batch", "-")
_END_S: Final = 5.0
_SHOWN_BYTES: Final = 2_000  # of standard error, in the message of `ProgramEnded`

Document = Mapping[str, Any]


class ProgramNotFound(Exception):
    """The program that evaluates is not installed here."""


class ProgramEnded(Exception):
    """The program ended before it answered; the message has its last output."""


class Builtin:
    """One of the evaluators that `tracejury evaluators` lists, with its configuration.

    The program `tracejury` judges, started once by this process; with `on="server"`, the server judges once the run has
    ended. Call the object with an example and outputs to get a score.
    """

    def __init__(
        self,
        evaluator: str,
        config: Mapping[str, Any] | None = None,
        *,
        on: Literal["program", "server"] = "program",
        connection: str | None = None,
        command: Sequence[str] = _COMMAND,
    ) -> None:
        """`connection` is the server's connection to the judge; the program's judge is in `config["judge"]`.

        A judge is an endpoint, or a function or coroutine function that takes a prompt and returns the reply. The
        function's name and its `@evaluator` version stand for the model. Calls may overlap. A list of an
        odd number of judges is a jury. Error detectors, argument matchers and matching strategies may be functions,
        too, that return True or False.

        Raises:
            ProgramNotFound: the program is to judge, and is not installed.
            ValueError: a function is given where the server judges, where none is expected, or beside `path`.
        """
        self.evaluator = evaluator
        self.is_on_server = on == "server"
        self._decisions = decisions(evaluator, config or {})
        if self.is_on_server and (self._decisions.names or calls_functions(config or {})):
            key = self._decisions.names[0].partition("=")[0] if self._decisions.names else "judge"
            raise ValueError(f"{key}: the server cannot call a function; leave out on='server'")
        self.config = with_judges(self._decisions.config)
        self.connection = connection
        self._program = None if self.is_on_server else program(command)

    def __call__(self, example: Example, outputs: Any) -> Score:
        """Score outputs.

        Raises:
            ProgramEnded: the program ended before it answered.
            ValueError: the evaluator runs on the server, once the run has ended.
        """
        return self.score(self.ask(example, outputs).result())

    def score(self, answer: Document) -> Score:
        """Return the score in an answer, with a fingerprint that includes the functions."""
        score = _score_of(answer)
        return replace(score, fingerprint=self._decisions.fingerprint(score.fingerprint))

    def ask(self, example: Example, outputs: Any) -> "Future[Document]":
        """Send outputs to the program; the future holds its answer.

        Raises:
            ValueError: the evaluator runs on the server, once the run has ended.

        """
        if self._program is None:
            raise ValueError(f"{self.evaluator} runs on the server, after the end of the run")
        case: Document = {
            "inputs": example.inputs,
            "actualOutputs": outputs if isinstance(outputs, Mapping) else {"output": outputs},
            "expectedOutputs": example.expected_outputs,
            "metadata": example.metadata,
        }
        case = self._decisions.case(case)
        return self._program.ask({"evaluator": self.evaluator, "config": self.config, "case": case})


def _score_of(answer: Document) -> Score:
    """Read the program's answer: a verdict, a failure, or a skipped case."""
    failure, usage = answer.get("failure") or {}, answer.get("usage") or {}
    return Score(
        name=answer["name"],
        value=answer["score"],
        passed=answer["success"],
        threshold=answer["threshold"],
        direction=answer.get("direction") or "higher",
        reason=answer["reason"],
        metadata=answer["metadata"] or None,
        fingerprint=answer["fingerprint"],
        error=failure.get("message"),
        error_kind=failure.get("kind"),
        judge_model=usage.get("model"),
        cost_usd=usage.get("costUsd"),
    )


@dataclass(frozen=True)
class _Child:
    """A running evaluator process, its unanswered requests, and the file of its standard error."""

    process: "subprocess.Popen[bytes]"
    waiting: "dict[int, Future[Document]]"
    complaints: IO[bytes]


class Program:
    """The program as a child that answers line by line. Started on the first use, and again if it ended."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = tuple(command)
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._child: _Child | None = None

    def ask(self, line: Document) -> "Future[Document]":
        """Send a line to the program; the future holds its answer, and fails if the program ends first."""
        answer: Future[Document] = Future()
        with self._lock:
            number = next(self._numbers)
            text = json.dumps(plain({"id": number, **line}), allow_nan=False, separators=(",", ":"))
            child = self._started()
            child.waiting[number] = answer
            try:
                stdin = _pipe(child.process.stdin)
                stdin.write(text.encode() + b"\n")
                stdin.flush()
            except OSError:
                child.process.kill()  # the reader thread notices, and fails all waiting requests
        return answer

    def close(self) -> None:
        """End the program."""
        with self._lock:
            child, self._child = self._child, None
        if child is None:
            return
        try:
            _pipe(child.process.stdin).close()
            child.process.wait(_END_S)
        except (OSError, subprocess.TimeoutExpired):
            child.process.kill()
            child.process.wait()

    def _started(self) -> _Child:
        if self._child is not None:
            return self._child
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by its reader after the end of the process
        process = subprocess.Popen(  # noqa: S603 - the program that the caller named
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints
        )
        self._child = _Child(process, {}, complaints)
        threading.Thread(target=self._read, args=(self._child,), name="tracejury-evaluate", daemon=True).start()
        return self._child

    def _read(self, child: _Child) -> None:
        for line in _pipe(child.process.stdout):
            try:
                document = json.loads(line)
                answer = child.waiting.pop(document["id"], None)
            except (ValueError, TypeError, KeyError):  # a stray print, or a line that a crash cut off
                child.process.kill()
                break
            if answer is not None and answer.set_running_or_notify_cancel():
                answer.set_result(document)
        code = child.process.wait()
        with self._lock:
            self._child = None if self._child is child else self._child
            for pipe in (child.process.stdin, child.process.stdout):
                with suppress(OSError):  # the last input cannot be delivered
                    _pipe(pipe).close()
        child.complaints.seek(0)
        complaints = child.complaints.read()[-_SHOWN_BYTES:].decode("utf-8", "replace").strip()
        child.complaints.close()
        for answer in child.waiting.values():
            if answer.set_running_or_notify_cancel():
                answer.set_exception(ProgramEnded(f"{' '.join(self._command)} ended with {code}: {complaints}"))


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None  # noqa: S101 - `Popen` was called with PIPE
    return pipe


_programs: Final[dict[tuple[str, ...], Program]] = {}
_programs_lock: Final = threading.Lock()


def installed(name: str) -> str:
    """Return the path of a program.

    Raises:
        ProgramNotFound: the program is not on the PATH.
    """
    path = shutil.which(name)
    if path is None:
        raise ProgramNotFound(
            f"{name} is not on the PATH: install the program beside this package, or ask a server: on='server'"
        )
    return path


def program(command: Sequence[str]) -> Program:
    """Return the program of a command, one for all evaluators of this process.

    Raises:
        ProgramNotFound: the program is not on the PATH.

    """
    key = (installed(command[0]), *command[1:])
    with _programs_lock:
        if key not in _programs:
            _programs[key] = Program(key)
            atexit.register(_programs[key].close)
        return _programs[key]
