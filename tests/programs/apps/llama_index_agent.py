# mypy: ignore-errors
"""LlamaIndex's function agent over OpenAI's chat completions."""

import os

import shop
from openinference.instrumentation.llama_index import LlamaIndexInstrumentor

LlamaIndexInstrumentor().instrument(tracer_provider=shop.tracing())

from llama_index.core.agent.workflow import FunctionAgent  # noqa: E402 - after the instrumentation
from llama_index.core.base.llms.types import ChatMessage  # noqa: E402
from llama_index.core.tools import FunctionTool  # noqa: E402
from llama_index.llms.openai import OpenAI  # noqa: E402

TOOLS = [FunctionTool.from_defaults(shop.lookup_stock), FunctionTool.from_defaults(shop.track_order)]


class Model(OpenAI):
    """A model whose name the library need not know."""

    @property
    def metadata(self) -> object:
        """Say that it calls tools."""
        from llama_index.core.base.llms.types import LLMMetadata

        return LLMMetadata(
            context_window=100_000, is_chat_model=True, is_function_calling_model=True, model_name=self.model
        )


async def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    model = Model(model=shop.MODEL, api_base=os.environ["OPENAI_BASE_URL"])
    agent = FunctionAgent(tools=TOOLS, llm=model, system_prompt=shop.SYSTEM, streaming=False)
    before = [ChatMessage(role="user", content="FIRST"), ChatMessage(role="assistant", content="yes")]
    await agent.run(prompt, chat_history=before if name == "second" else None)


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "cut", "twice", "first", "second")
