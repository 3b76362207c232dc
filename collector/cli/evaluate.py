"""`tracejury evaluate`: judge one case, many, or an eval set."""

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from collector.cli.client import open_source
from collector.cli.options import judge_options, one_source, source_options, take_judge
from collector.cli.render import counting, print_json, print_json_line
from collector.cli.responses import parse_response
from collector.escaping import one_line, some_lines
from collector.path_names import path_segment

if TYPE_CHECKING:
    from collector.evaluation.batch import Summary
    from collector.evaluation.eval_set import EvalItemResult, EvalSet
    from evaluators.model import Case
    from evaluators.outcome import Outcome

BAD_INPUT = 2


class BadInput(click.ClickException):
    """Unreadable input."""

    exit_code = BAD_INPUT


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateOptions:
    """Options of the command line."""

    case: str | None
    evaluator: str | None
    config: str | None
    trace: str | None
    server: str | None
    data: Path | None
    batch: str | None
    eval_set: Path | None
    evaluators: Path | None
    traces: tuple[Path, ...]
    report: str
    junit: Path | None
    show_prompt: bool
    judge: Mapping[str, Any] | None


@click.command()
@click.argument("case", required=False, metavar="[CASE.json]")
@click.option("--evaluator", metavar="NAME", help="Evaluator to use; `tracejury evaluators` lists them.")
@click.option("--config", metavar="JSON|@FILE", help="Its configuration.")
@click.option("--trace", metavar="ID", help="Judge a stored trace; a test case given with it adds expectations.")
@click.option("--batch", metavar="FILE", help="One evaluation per line; - reads standard input.")
@click.option("--eval-set", type=click.Path(path_type=Path, dir_okay=False), help="Judge recorded runs by an eval set.")
@click.option("--evaluators", type=click.Path(path_type=Path, file_okay=False), help="The evaluator files of the set.")
@click.option(
    "--traces", type=click.Path(path_type=Path, exists=True), multiple=True, help="Files or folders of recorded runs."
)
@click.option("--report", type=click.Choice(["table", "json"]), default="table", show_default=True)
@click.option("--junit", type=click.Path(path_type=Path, dir_okay=False), help="Also write JUnit XML to this file.")
@click.option("--show-prompt", is_flag=True, help="Print the first prompt of a judge without calling a model.")
@judge_options
@source_options
@click.pass_context
def evaluate(context: click.Context, /, **options: Any) -> None:
    """Judge a test case, and print its outcome as JSON.

    Exits with 0 if it passes, 1 if it does not, 2 if it cannot be judged.
    """
    choice = EvaluateOptions(judge=take_judge(options), **options)
    one_source(choice.server, choice.data)
    try:
        code = _mode(choice)(choice)
    except click.UsageError:
        raise
    except click.ClickException as error:  # such as an unreachable server
        raise BadInput(error.format_message()) from error
    context.exit(code)


def _mode(choice: EvaluateOptions) -> Callable[[EvaluateOptions], int]:
    """Return the handler of the chosen mode; refuse options of other modes."""
    modes: dict[str, tuple[Callable[[EvaluateOptions], int], set[str]]] = {
        "evaluator": (_evaluate_one, {"case", "config", "trace", "server", "data", "show_prompt"}),
        "batch": (_evaluate_batch, set()),
        "eval_set": (_evaluate_set, {"evaluators", "traces", "junit"}),
    }
    used = {name for name in EvaluateOptions.__slots__ if getattr(choice, name) and name not in {"report", "judge"}}
    chosen = [name for name in modes if name in used]
    if len(chosen) != 1:
        raise click.UsageError("one of --evaluator, --batch and --eval-set is needed")
    mode, allowed = modes[chosen[0]]
    useless = used - allowed - {chosen[0]}
    if useless:
        names = ", ".join("CASE.json" if name == "case" else _option(name) for name in sorted(useless))
        raise click.UsageError(f"{names}: not used with {_option(chosen[0])}")
    return mode


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _evaluate_one(choice: EvaluateOptions) -> int:
    from collector.evaluation.batch import Summary, judged_evaluators
    from evaluators.errors import EvaluationError
    from evaluators.evaluator import run
    from evaluators.outcome import Failure

    if choice.case is None and choice.trace is None:
        raise click.UsageError("a case is needed: a file, - for standard input, or --trace ID")
    name = str(choice.evaluator)
    configuration = configuration_of(choice.config)

    if choice.show_prompt:
        return _show_prompt(name, configuration, _case(choice))

    async def judge() -> "Outcome":
        async with judged_evaluators(choice.judge) as make:
            return await run(make(name, configuration), _case(choice))

    outcome: Outcome
    try:
        outcome = asyncio.run(judge())
    except EvaluationError as broken:
        outcome = Failure(name=name, fingerprint=None, kind=broken.kind, message=str(broken), usage=None)
    print_json(outcome.to_document())
    summary = Summary()
    summary.add(outcome)
    return summary.exit_code


def _show_prompt(name: str, configuration: Mapping[str, Any], case: "Case") -> int:
    from collector.evaluation.batch import JUDGE_KEY
    from collector.evaluation.prompt_preview import preview_prompt

    settings = {key: value for key, value in configuration.items() if key != JUDGE_KEY}
    preview = asyncio.run(preview_prompt(name, settings, case.model_dump(by_alias=True)))
    if preview.problem:
        raise BadInput(f"the judge would not be called: {one_line(preview.problem)}")
    for message in preview.messages:
        click.echo(f"[{message.role}]\n{some_lines(message.content)}\n")
    return 0


def _evaluate_batch(choice: EvaluateOptions) -> int:
    from collector.evaluation.batch import Summary, evaluate_lines, judged_evaluators, lines_of

    summary = Summary()

    async def answer(advance: Callable[[], None]) -> None:
        async with judged_evaluators(choice.judge) as make:
            with _opened(str(choice.batch)) as file:
                async for key, outcome in evaluate_lines(lines_of(file), make):
                    print_json_line({"id": key, **outcome.to_document()})
                    sys.stdout.flush()  # the producer of the lines may wait for it
                    summary.add(outcome)
                    advance()

    with counting("evaluated") as advance:
        asyncio.run(answer(advance))
    return _echo_summary(summary)


def _evaluate_set(choice: EvaluateOptions) -> int:
    from collector.cli.eval_report import print_report
    from collector.evaluation.eval_set import BadEvalSet
    from collector.evaluation.recorded import UnreadableTraces
    from collector.evaluation.report import junit, report_document, summary_of

    if choice.eval_set is None or choice.evaluators is None or not choice.traces:
        raise click.UsageError("--eval-set needs --evaluators DIR and --traces PATH")
    try:
        with counting("items") as advance:
            eval_set, results = asyncio.run(_judge_set(choice.eval_set, choice.evaluators, choice, advance))
    except (BadEvalSet, UnreadableTraces) as error:
        raise BadInput(one_line(str(error))) from error
    if not any(result.outcomes for result in results):
        raise BadInput("no item names an evaluator of the set, so nothing was judged")
    if choice.junit is not None:
        choice.junit.write_text(junit(eval_set, results), encoding="utf-8")
    if choice.report == "json":
        print_json(report_document(eval_set, results))
    else:
        print_report(eval_set, results)
    return _echo_summary(summary_of(results))


async def _judge_set(
    file: Path, evaluators: Path, choice: EvaluateOptions, advance: Callable[[], None]
) -> "tuple[EvalSet, list[EvalItemResult]]":
    from collector.evaluation.batch import judged_evaluators
    from collector.evaluation.eval_set import find_recordings, judge_item, load_eval_set

    results = []
    async with judged_evaluators(choice.judge) as make:
        eval_set = load_eval_set(file, evaluators, make)
        recordings = find_recordings(eval_set.items, choice.traces)
        for item in eval_set.items:
            results.append(await judge_item(eval_set, item, recordings.get(item.id)))
            advance()
    return eval_set, results


def _echo_summary(summary: "Summary") -> int:
    click.echo(str(summary), err=True)
    return summary.exit_code


def _case(choice: EvaluateOptions) -> "Case":
    from collector.evaluation.trace_case import joined
    from evaluators.case import parse_case
    from evaluators.model import Case

    case = Case() if choice.case is None else parse_case(_json(choice.case, "the case"))
    return case if choice.trace is None else joined(_stored(choice), case)


def _stored(choice: EvaluateOptions) -> "Case":
    """Return a stored trace as a case, read by the server: with log records, and by the server's own keys."""
    from collector.api.documents.reading_documents import trace_reading_of
    from collector.api.responses.traces import TraceDocument
    from collector.evaluation.recorded import recording_of
    from collector.evaluation.trace_case import case_of_trace

    key = str(choice.trace).strip().lower()
    path = f"/api/v1/traces/{path_segment(key)}"
    with open_source(choice.server, choice.data) as source:
        document, spans = source.find(path), source.find(f"{path}/otlp")
    if document is None or spans is None:
        raise BadInput(f"no trace {one_line(str(choice.trace))} here; `tracejury traces list` shows the newest")
    reading, recorded = trace_reading_of(parse_response(TraceDocument, document)), recording_of(spans).spans
    if len(recorded) > len(reading.spans):
        raise BadInput(f"trace {key} has {len(recorded)} spans, and only {len(reading.spans)} are shown at once")
    return case_of_trace(reading, recorded)


def configuration_of(text: str | None) -> Mapping[str, Any]:
    """Return a configuration from JSON, or from a file after `@`; without a text the default one."""
    if text is None:
        return {}
    configuration = _json(text[1:], "the configuration") if text.startswith("@") else _parsed(text, "the configuration")
    if not isinstance(configuration, Mapping):
        raise BadInput("the configuration is not a JSON object")
    return configuration


def _json(file: str, what: str) -> object:
    """Read JSON from a file, or from standard input."""
    try:
        with _opened(file) as opened:
            text = opened.read().decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{what} is not UTF-8: {error}") from error
    return _parsed(text, what)


def _parsed(text: str, what: str) -> object:
    from evaluators.wire import parse_json

    try:
        return parse_json(text)
    except ValueError as error:
        raise BadInput(f"{what} is not JSON: {one_line(str(error))}") from error


def _opened(file: str) -> AbstractContextManager[Any]:
    """Open a file to read bytes; - is standard input."""
    if file == "-":
        return _standard_input()
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise BadInput(f"{one_line(file)} cannot be read: {error.strerror}") from error


@contextmanager
def _standard_input() -> Iterator[Any]:
    yield sys.stdin.buffer
