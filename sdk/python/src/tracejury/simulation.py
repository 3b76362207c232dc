"""Simulations: conversations by scenario and trial, some at a time, within a budget, resumed from a journal."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from tracejury.chat_model import ChatCompletions, UserTool
from tracejury.dataset import Example
from tracejury.experiment import current_item, progress_bar
from tracejury.goldens import golden_examples
from tracejury.journal import Journal, Place
from tracejury.results import Measured, TaskFailed
from tracejury.scenario import Scenario, keyed, scenario_of
from tracejury.simulated_user import UserModel
from tracejury.simulator import Application, ConversationSimulator, SimulatedConversation, StoppingCondition, seed_of
from tracejury.spending import BudgetAccount, SimulationBudget
from tracejury.tracing import flush

_COUNTED: Final = ("max_turns", "stopping_condition", "user_ended", "budget", "error")


@dataclass(frozen=True)
class Simulated:
    """The conversation of a scenario in a trial."""

    scenario: Scenario
    trial: int
    conversation: SimulatedConversation

    def document(self) -> dict[str, Any]:
        """Return the conversation as JSON for the journal."""
        details = {"key": self.scenario.key, "trial": self.trial, "scenarioDigest": self.scenario.digest}
        return details | {"expectedOutcome": self.scenario.expected_outcome} | self.conversation.document()


@dataclass(frozen=True)
class SimulationResult:
    """Result of a simulation: its conversations by scenario, then by trial."""

    name: str
    simulated: Sequence[Simulated]
    left: Sequence[Place]  # not begun, or broken off for lack of budget; the latter are in `simulated`, too
    resumed: int  # conversations that the journal had
    spent: Mapping[str, Any]

    def stop_reasons(self) -> dict[str, int]:
        """Count the conversations by stop reason."""
        reasons = [each.conversation.stop_reason for each in self.simulated]
        return {reason: reasons.count(reason) for reason in _COUNTED if reason in reasons}

    def errors(self, source: str) -> list[Simulated]:
        """Return the conversations that ended with an error of `source`: `agent` or `simulator`."""
        return [each for each in self.simulated if each.conversation.error_source == source]

    def goldens(self) -> list[Example]:
        """Return the complete conversations as items of a dataset."""
        whole = [each for each in self.simulated if each.conversation.stop_reason not in {"error", "budget"}]
        return golden_examples((each.scenario, each.conversation.trajectory) for each in whole)


@dataclass(frozen=True)
class Simulation:
    """Scenarios played against an application: `run`, or `run_async` within an event loop.

    With a `journal`, a repeated run of the simulation skips the conversations that ended, except those that ended by an
    error of the simulator or for lack of budget. The seed of a conversation is derived from the simulation's seed,
    the scenario and the trial.
    """

    name: str
    scenarios: Sequence[Scenario]
    application: Application
    model: UserModel | None = None
    tools: Sequence[UserTool] = ()
    trials: int = 1
    parallelism: int = 1
    max_turns: int = 10
    stopping_condition: StoppingCondition | None = None
    budget: SimulationBudget = field(default_factory=SimulationBudget)
    journal: str | Path | None = None
    seed: int = 0
    reply_timeout_s: float | None = 120.0
    progress: Callable[[int, int], None] = progress_bar

    def __post_init__(self) -> None:
        if not self.scenarios:
            raise ValueError("a simulation needs a scenario")
        if self.trials < 1 or self.parallelism < 1 or self.max_turns < 1:
            raise ValueError("trials, parallelism and max_turns are 1 or more")
        if self.budget.usd is not None and isinstance(self.model, ChatCompletions) and not self.model.is_priced:
            raise ValueError("a budget in USD needs the prices of the model: input_usd and output_usd")
        for each in keyed(self.scenarios):
            each.user(self.model, self.tools)

    def run(self) -> SimulationResult:
        """Run it, and wait.

        Raises:
            JournalInUse: another process uses the journal.
            ValueError: the journal is of other scenarios.
        """
        return asyncio.run(self.run_async())

    async def run_async(self) -> SimulationResult:
        """Run the simulation within an event loop.

        Raises:
            JournalInUse: another process uses the journal.
            ValueError: the journal is of other scenarios.

        """
        scenarios = {each.key: each for each in keyed(self.scenarios)}
        places = [(key, trial) for key in scenarios for trial in range(1, self.trials + 1)]
        with ExitStack() as stack:
            journal = None if self.journal is None else stack.enter_context(Journal(Path(self.journal)))
            kept = {} if journal is None else journal.kept
            conversations = {of: _had(kept[of], scenarios[of[0]]) for of in places if of in kept}
            account = BudgetAccount(self.budget)
            ended = [(each.user_spent, each.agent_spent) for each in conversations.values()]
            for each in chain.from_iterable([*ended, *(() if journal is None else journal.lost)]):
                account.spent.calls += each["calls"]
                account.spent.add(each["tokensIn"], each["tokensOut"], each["costUsd"])
            resumed = len(conversations)
            await self._converse(
                scenarios, [place for place in places if place not in conversations], account, journal, conversations
            )
        await asyncio.to_thread(flush)
        is_left = {
            place for place in places if place not in conversations or conversations[place].stop_reason == "budget"
        }
        simulated = [Simulated(scenarios[of[0]], of[1], conversations[of]) for of in places if of in conversations]
        left = [place for place in places if place in is_left]
        return SimulationResult(self.name, simulated, left, resumed, account.spent.document())

    async def _converse(
        self,
        scenarios: Mapping[str, Scenario],
        left: Sequence[Place],
        account: BudgetAccount,
        journal: Journal | None,
        conversations: dict[Place, SimulatedConversation],
    ) -> None:
        """Run the remaining conversations, some at a time; begin none once the budget is spent."""
        waiting, is_spent, total = iter(left), False, len(conversations) + len(left)

        async def work() -> None:
            nonlocal is_spent
            for key, trial in waiting:
                if is_spent:
                    return
                ended = await self.simulator(scenarios[key], trial, account).simulate_async()
                conversations[key, trial] = ended
                if ended.stop_reason == "budget":
                    is_spent = True
                    if journal is not None:
                        journal.write_lost([ended.user_spent, ended.agent_spent])
                elif journal is not None:
                    journal.write(Simulated(scenarios[key], trial, ended).document())
                self.progress(len(conversations), total)

        working = [asyncio.ensure_future(work()) for _ in range(min(self.parallelism, len(left)))]
        try:
            await asyncio.gather(*working)
        finally:
            for each in working:
                each.cancel()

    def simulator(self, scenario: Scenario, trial: int, account: BudgetAccount | None = None) -> ConversationSimulator:
        """Return the simulator of one conversation."""
        return ConversationSimulator(
            simulated_user=scenario.user(self.model, self.tools),
            application=self.application,
            max_turns=scenario.turns_at_most(self.max_turns),
            scenario=scenario.scenario,
            initial_message=scenario.initial_message,
            stopping_condition=self.stopping_condition,
            expected_outcome=scenario.expected_outcome,
            seed=seed_of(self.seed, scenario.key, trial),
            reply_timeout_s=self.reply_timeout_s,
            attributes={"tracejury.scenario": scenario.key, "tracejury.trial": trial},
            account=account or BudgetAccount(self.budget),
        )


def _had(document: Mapping[str, Any], scenario: Scenario) -> SimulatedConversation:
    if document.get("scenarioDigest") != scenario.digest:
        raise ValueError(f"the scenario {scenario.key} has changed since the journal was written; use another journal")
    return SimulatedConversation.of(document)


def simulated_task(simulation: Simulation) -> Callable[[Example], Any]:
    """Return a task for experiments on a dataset from `dataset_of`: it simulates the scenario of each example.

    All conversations share the simulation's budget. The outputs are `output` (the last answer), `trajectory`,
    `toolCalls`, `state` and `simulation` (stop reason, session, seed, who the user was). A conversation that broke off
    is an error of the kind `agent`, `simulator` or `budget`, with the turns so far.
    """
    account = BudgetAccount(simulation.budget)

    async def task(example: Example) -> Measured:
        scenario, item = scenario_of(example), current_item.get()
        key, trial = item or (scenario.key, 1)
        had = await simulation.simulator(replace(scenario, key=key), trial, account).simulate_async()
        outputs = _outputs(had)
        if had.error is not None:
            raise TaskFailed(had.error_source or "budget", had.error, outputs)
        spent = had.agent_spent
        return Measured(outputs, spent["tokensIn"], spent["tokensOut"], spent["costUsd"], stop_reason=had.stop_reason)

    return task


def _outputs(had: SimulatedConversation) -> dict[str, Any]:
    last, document = had.trajectory.last_assistant_message, had.document()
    names = ("sessionId", "stopReason", "turnCount", "seed", "user", "userSpent", "agentSpent", "traceIds")
    outputs = {
        "output": None if last is None else last.content,
        "trajectory": document["trajectory"],
        "toolCalls": [call.document() for call in had.trajectory.tool_calls()],
        "state": had.state,
        "simulation": {name: document[name] for name in names},
    }
    return {name: value for name, value in outputs.items() if value is not None}
