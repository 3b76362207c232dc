# mypy: ignore-errors
"""Smolagents' agent that calls tools, over OpenAI's chat completions."""

import os

import shop
from openinference.instrumentation.smolagents import SmolagentsInstrumentor

SmolagentsInstrumentor().instrument(tracer_provider=shop.tracing())

from smolagents import OpenAIServerModel, Tool, ToolCallingAgent  # noqa: E402 - after the instrumentation


class Stock(Tool):
    """Units of an item in a warehouse."""

    name, description, output_type = "lookup_stock", shop.TOOLS["lookup_stock"][0], "string"
    inputs = {  # noqa: RUF012 - the base class has it so
        "item": {"type": "string", "description": "item"},
        "warehouse": {"type": "string", "description": "warehouse"},
    }

    def forward(self, item: str, warehouse: str) -> str:
        """Call the shop's function."""
        return shop.lookup_stock(item, warehouse)


class Order(Tool):
    """The location of an order."""

    name, description, output_type = "track_order", shop.TOOLS["track_order"][0], "string"
    inputs = {  # noqa: RUF012 - the base class has it so
        "order_id": {"type": "integer", "description": "order"},
        "verbose": {"type": "boolean", "description": "verbose"},
    }

    def forward(self, order_id: int, verbose: bool) -> str:  # noqa: FBT001 - the model writes it
        """Call the shop's function."""
        return shop.track_order(order_id, verbose)


def run(name: str, prompt: str) -> None:  # noqa: ARG001 - all scenarios are alike
    """Run one scenario."""
    model = OpenAIServerModel(shop.MODEL, api_base=os.environ["OPENAI_BASE_URL"], api_key="none")
    ToolCallingAgent(tools=[Stock(), Order()], model=model, verbosity_level=0, max_steps=5).run(prompt)


shop.each(run, "seq-think", "parallel-preamble", "failtool", "twice", "first")
