# mypy: ignore-errors
# pydantic-ai is another version in each recording
"""An application on Pydantic AI: the scenarios that its versions record."""

from pydantic_ai import Agent, ImageUrl
from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart
from pydantic_ai.models.openai import OpenAIChatModel

from tests.corpus.record import script

RUN = {}  # what each run is started with
PROVIDER = {}  # what the model is made with


def agent(*tools: object, **fields: object) -> Agent:
    """An agent on the scripted model."""
    return Agent(OpenAIChatModel(script.CHAT_MODEL, **PROVIDER), name="assistant", tools=tools, **fields)


def chat() -> None:
    """One question, one answer."""
    agent().run_sync(script.CAPITAL, **RUN)


def conversation() -> None:
    """A system prompt and an earlier exchange before the question."""
    request = ModelRequest(parts=[SystemPromptPart(script.SYSTEM), UserPromptPart(script.HELLO)])
    history = [request, ModelResponse(parts=[TextPart(script.GREETING)])]
    agent(system_prompt=script.SYSTEM).run_sync(script.NAME, message_history=history, **RUN)


def instructed() -> None:
    """Instructions, which are not part of the messages."""
    agent(instructions=script.SYSTEM).run_sync(script.CAPITAL, **RUN)


def multimodal() -> None:
    """A question with a picture."""
    agent().run_sync([script.PICTURE, ImageUrl(script.PICTURE_URL)], **RUN)


async def streamed() -> None:
    """An answer that comes in pieces."""
    async with agent().run_stream(script.COUNT, **RUN) as answer:
        async for _ in answer.stream_text():
            pass


def tools(question: str) -> None:
    """A question that needs tools."""
    agent(script.get_weather).run_sync(question, **RUN)


def tool_error() -> None:
    """The tool raises, and the run with it."""
    try:
        tools(script.ATLANTIS)
    except ValueError:
        return
    raise AssertionError("the tool did not raise")
