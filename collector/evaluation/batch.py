"""Batch evaluation of JSONL: each input line gets an outcome, in order, even if the line is not valid."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, TypeAlias

from pydantic import ValidationError

from collector.result_labels import NO_VERDICT, NOT_PASSED, PASSED, SKIPPED
from collector.settings_loading import environment_variable
from evaluators.case import parse_case
from evaluators.chat.settings import Judges
from evaluators.errors import BadConfiguration, EvaluationError
from evaluators.evaluator import Evaluator, run
from evaluators.jury import JudgeVote, jury_fingerprint, outcome_of_votes
from evaluators.model import Case, NonBlank, text_of
from evaluators.outcome import Direction, Failure, Outcome, Skipped, Verdict
from evaluators.registry import build
from evaluators.wire import WireModel, explain, parse_json
from storage.limit import Limit

_LINE: Final = Limit(value=64 << 20, unit="bytes", remedy="cut its texts")
"""Limit of a line: that of a request body by default. A guess."""

_AT_A_TIME: Final = 16
"""Lines that are judged at the same time, since judges take seconds to answer. A guess."""

_KEPT_EVALUATORS: Final = 256
"""Evaluators that are kept for the next line with the same configuration. A guess."""

Make: TypeAlias = Callable[[str, Mapping[str, Any]], Evaluator]
"""Factory of an evaluator, from its name and its configuration. Raises `BadConfiguration`."""


class BatchLine(WireModel):
    """One evaluation."""

    id: Any = None
    evaluator: NonBlank
    config: Mapping[str, Any] | None = None
    case: Any


@dataclass(slots=True)
class Summary:
    """Counts of evaluations by their result: passed, not passed, skipped, or no verdict."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, outcome: Outcome) -> None:
        """Count one more."""
        self.counts[ending(outcome)] += 1

    @property
    def exit_code(self) -> int:
        """Return 2 if any evaluation gave no verdict, else 1 if any did not pass, else 0."""
        return 2 if self.counts[NO_VERDICT] else 1 if self.counts[NOT_PASSED] else 0

    def __str__(self) -> str:
        total = sum(self.counts.values())
        parts = [f"{self.counts[name]} {name}" for name in _ENDINGS if self.counts[name]]
        return f"{total} evaluated: {', '.join(parts) or 'nothing'}"


_ENDINGS: Final = (PASSED, NOT_PASSED, SKIPPED, NO_VERDICT)


def ending(outcome: Outcome) -> str:
    """Return the result of an evaluation in the words of the summary."""
    match outcome:
        case Verdict():
            return PASSED if outcome.success else NOT_PASSED
        case Skipped():
            return SKIPPED
        case Failure():
            return NO_VERDICT


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file; cut a line that is too long, just above the limit, so that it is still refused."""
    longest = int(_LINE.value) + 2
    while line := file.readline(longest):
        rest = line
        while not rest.endswith(b"\n") and len(rest) == longest:
            rest = file.readline(longest)
        yield line


async def evaluate_lines(lines: Iterable[bytes], make: Make) -> AsyncIterator[tuple[Any, Outcome]]:
    """Yield the id and the outcome of each line, in order; several are judged at the same time.

    A separate thread reads the lines, so that an outcome does not wait for the next line to arrive.
    """
    maker = _remembering(make)
    loop, free, stopped = asyncio.get_running_loop(), threading.Semaphore(_AT_A_TIME), threading.Event()
    read: asyncio.Queue[asyncio.Task[tuple[Any, Outcome]] | Exception | None] = asyncio.Queue()

    def begin(line: bytes) -> None:
        read.put_nowait(loop.create_task(_evaluate(line, maker)))

    def read_all() -> None:
        end: Exception | None = None
        try:
            for line in lines:
                free.acquire()
                if stopped.is_set():
                    return
                loop.call_soon_threadsafe(begin, line)
        except Exception as error:  # noqa: BLE001 - the top of a thread: raised again where the lines are read
            end = error
        loop.call_soon_threadsafe(read.put_nowait, end)

    threading.Thread(target=read_all, name="lines", daemon=True).start()
    try:
        while (item := await read.get()) is not None:
            if isinstance(item, Exception):
                raise item
            try:
                yield await item
            finally:
                item.cancel()
                free.release()
    finally:
        stopped.set()
        free.release()
        while not read.empty():
            left = read.get_nowait()
            if isinstance(left, asyncio.Task):
                left.cancel()


async def _evaluate(raw: bytes, make: Make) -> tuple[Any, Outcome]:
    key, name = None, "batch"
    try:
        document = _document(raw)
        if isinstance(document, dict):
            key, name = document.get("id"), text_of(document.get("evaluator", name))
        line = BatchLine.model_validate(document)
        evaluator = make(line.evaluator, line.config or {})
        return key, await run(evaluator, parse_case(line.case))
    except EvaluationError as broken:
        return key, Failure(name=name, fingerprint=None, kind=broken.kind, message=str(broken), usage=None)
    except ValidationError as error:
        message = f"the line: {explain(error, BatchLine)}"
    except Exception as error:  # noqa: BLE001 - a line that fails must not stop the others
        message = f"the line: {error}"
    return key, Failure(name=name, fingerprint=None, kind="bad_line", message=message, usage=None)


def _document(raw: bytes) -> object:
    if len(raw) > _LINE.value:
        raise ValueError(f"longer than {_LINE}")
    if not raw.strip():
        raise ValueError("is empty")
    return parse_json(raw.decode())


def _remembering(make: Make) -> Make:
    """Cache evaluators, and the errors of those that cannot be built."""
    made: dict[str, Evaluator | BadConfiguration] = {}

    def remember(name: str, configuration: Mapping[str, Any]) -> Evaluator:
        key = text_of([name, configuration])
        if key not in made:
            if len(made) >= _KEPT_EVALUATORS:
                made.clear()
            try:
                made[key] = make(name, configuration)
            except BadConfiguration as error:
                made[key] = error
        evaluator = made[key]
        if isinstance(evaluator, BadConfiguration):
            raise evaluator
        return evaluator

    return remember


JUDGE_KEY: Final = "judge"
"""Key of a line's `config` that selects its judge; no evaluator has a setting with this name."""


MOST_JUDGES: Final = 9
"""Largest jury; a single judge may have as many votes."""


_JURY: Final = Limit(value=MOST_JUDGES, unit="judges", remedy="name fewer")


class _Jury:
    """Evaluator whose verdict is the vote of several that differ only in their judges."""

    def __init__(self, members: Sequence[tuple[str, Evaluator]]) -> None:
        """Set up with the models' names and evaluators.

        Raises:
            BadConfiguration: their number is even, or too large.
        """
        if len(members) % 2 == 0:
            raise BadConfiguration(f"judge: {len(members)} judges, which may be equally divided: name an odd number")
        if len(members) > MOST_JUDGES:
            raise BadConfiguration(f"judge: {len(members)} judges, and a jury has at most {_JURY}")
        self._members = members
        self.name = members[0][1].name
        self.direction: Direction = members[0][1].direction
        self.fingerprint = jury_fingerprint([each.fingerprint for _, each in members])

    async def __call__(self, case: Case) -> Outcome:
        outcomes = await asyncio.gather(*(run(each, case) for _, each in self._members))
        votes = zip(self._members, outcomes, strict=True)
        return outcome_of_votes([JudgeVote(connection=name, model=name, outcome=each) for (name, _), each in votes])


@asynccontextmanager
async def judged_evaluators(default: Mapping[str, Any] | None) -> AsyncIterator[Make]:
    """Yield a factory of evaluators; they share judges, whose connections stay open until the context exits."""
    async with Judges(environment_variable) as judges:

        def make(name: str, configuration: Mapping[str, Any]) -> Evaluator:
            own = {key: value for key, value in configuration.items() if key != JUDGE_KEY}
            document = configuration.get(JUDGE_KEY, default)
            if isinstance(document, list):
                members = [judges.judge(each) for each in document]
                return _Jury([(each.model, build(name, own, each)) for each in members])
            return build(name, own, None if document is None else judges.judge(document))

        yield make
