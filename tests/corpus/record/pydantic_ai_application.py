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
    """Return an agent on the scripted model."""
    return Agent(OpenAIChatModel(script.CHAT_MODEL, **PROVIDER), name="assistant", tools=tools, **fields)


def chat() -> None:
    """Ask one question."""
    agent().run_sync(script.CAPITAL, **RUN)


def conversation() -> None:
    """Ask a question after a system prompt and an earlier exchange."""
    request = ModelRequest(parts=[SystemPromptPart(script.SYSTEM), UserPromptPart(script.HELLO)])
    history = [request, ModelResponse(parts=[TextPart(script.GREETING)])]
    agent(system_prompt=script.SYSTEM).run_sync(script.NAME, message_history=history, **RUN)


def instructed() -> None:
    """Ask with instructions, which are not part of the messages."""
    agent(instructions=script.SYSTEM).run_sync(script.CAPITAL, **RUN)


def multimodal() -> None:
    """Ask a question with a picture."""
    agent().run_sync([script.PICTURE, ImageUrl(script.PICTURE_URL)], **RUN)


async def streamed() -> None:
    """Stream an answer."""
    async with agent().run_stream(script.COUNT, **RUN) as answer:
        async for _ in answer.stream_text():
            pass


def tools(question: str) -> None:
    """Ask a question that needs tools."""
    agent(script.get_weather).run_sync(question, **RUN)


def tool_error() -> None:
    """Ask a question whose tool raises, which ends the run."""
    try:
        tools(script.ATLANTIS)
    except ValueError:
        return
    raise AssertionError("the tool did not raise")
