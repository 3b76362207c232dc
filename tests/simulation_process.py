"""A simulation as a process, which may be killed and begun again: model URL, journal, scenarios, trials."""

import sys
from pathlib import Path

from tracejury import ChatCompletions, HttpTarget, Scenario, Simulation
from tracejury.targets import AnswerPlaces

PLACES = AnswerPlaces(output="/choices/0/message/content", tokens_in="/usage/prompt_tokens")


def main(url: str, journal: str, scenarios: int, trials: int) -> None:
    """Run it whole; both sides are asked of one server."""
    planned = [
        Scenario(f"Parcel {number} is late", f"parcel-{number}", persona="impatientUser") for number in range(scenarios)
    ]
    body = {"model": "agent", "messages": "{{messages}}"}
    simulation = Simulation(
        "parcels",
        planned,
        HttpTarget(f"{url}/chat/completions", body=body, places=PLACES),
        ChatCompletions(url, "user"),
        trials=trials,
        parallelism=8,
        max_turns=3,
        journal=Path(journal),
        seed=7,
    )
    print("ready", flush=True)  # noqa: T201 - the parent waits for it before it kills
    result = simulation.run()
    print(len(result.simulated), result.resumed, len(result.left), result.stop_reasons())  # noqa: T201 - how it ended


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
