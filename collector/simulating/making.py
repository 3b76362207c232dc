"""A simulation as its plan describes it, made of classes of `tracejury-sdk`."""

from collections.abc import Callable, Sequence
from pathlib import Path

from collector.plan_file import BadPlan
from collector.simulating.plan import SimulationPlan, StopPlan, TargetPlan, UserPlan, UserToolPlan
from tracejury.chat_model import ChatCompletions, UserTool
from tracejury.conversation import ConversationTrajectory
from tracejury.scenario import Scenario, read_scenarios, scenarios_of
from tracejury.simulation import Simulation
from tracejury.spending import SimulationBudget
from tracejury.targets import AnswerPlaces, CommandTarget, HttpTarget

Variable = Callable[[str], str | None]
"""Function from a name to the environment variable; None if it is not set."""


def simulation_of(plan: SimulationPlan, folder: Path, variable: Variable, journal: Path | None = None) -> Simulation:
    """Make the simulation of a plan, whose paths and commands are relative to a folder.

    Raises:
        BadPlan: a value is not valid, or a file or variable that the plan names is missing.
    """
    try:
        return Simulation(
            plan.simulation,
            _scenarios(plan, folder),
            _target(plan.target, folder, variable),
            None if plan.user is None else _model(plan.user, variable),
            () if plan.user is None else [_tool(each, folder) for each in plan.user.tools],
            plan.trials,
            plan.parallelism,
            plan.max_turns,
            _condition(plan.stop_when),
            SimulationBudget(plan.budget.calls, plan.budget.tokens, plan.budget.usd),
            journal,
            plan.seed,
            None,  # a target has its own timeout
        )
    except ValueError as error:
        raise BadPlan(str(error)) from None


def _scenarios(plan: SimulationPlan, folder: Path) -> Sequence[Scenario]:
    if not isinstance(plan.scenarios, str):
        return scenarios_of(plan.scenarios)
    try:
        return read_scenarios(folder / plan.scenarios)
    except OSError as error:
        raise BadPlan(f"scenarios: {plan.scenarios}: {error.strerror}") from None


def _target(plan: TargetPlan, folder: Path, variable: Variable) -> HttpTarget | CommandTarget:
    places = AnswerPlaces(plan.output, plan.tool_calls, plan.state, plan.tokens_in, plan.tokens_out, plan.cost_usd)
    if plan.url is None:
        return CommandTarget(plan.command or (), plan.environment, folder, places, plan.timeout_seconds)
    secret_headers = {
        name: _required_variable(variable, of, "target.headersFrom") for name, of in plan.headers_from.items()
    }
    return HttpTarget(plan.url, {**plan.headers, **secret_headers}, plan.body, places, plan.timeout_seconds)


def _model(plan: UserPlan, variable: Variable) -> ChatCompletions:
    return ChatCompletions(
        plan.base_url,
        plan.model,
        None if plan.key_env is None else _required_variable(variable, plan.key_env, "user.keyEnv"),
        plan.temperature,
        plan.max_output_tokens,
        plan.time_limit_seconds,
        plan.attempts,
        plan.input_usd_per_million,
        plan.output_usd_per_million,
    )


def _tool(plan: UserToolPlan, folder: Path) -> UserTool:
    target = CommandTarget(plan.command, folder=folder)

    async def run(**arguments: object) -> str:
        return (await target.printed(arguments)).decode("utf-8", "replace").strip()

    return UserTool(plan.name, plan.description, run, plan.parameters)


def _required_variable(variable: Variable, name: str, key: str) -> str:
    value = variable(name)
    if not value:
        raise BadPlan(f"{key}: {name} is not set in the environment")
    return value


def _condition(plan: StopPlan) -> Callable[[ConversationTrajectory], bool] | None:
    """Return a condition that is true once the last message has one of the texts."""
    texts = {
        "user": [text.casefold() for text in plan.user_says],
        "assistant": [text.casefold() for text in plan.assistant_says],
    }
    if not any(texts.values()):
        return None

    def stops(trajectory: ConversationTrajectory) -> bool:
        last = trajectory.last_message
        return last is not None and any(text in last.content.casefold() for text in texts.get(last.role, ()))

    return stops
