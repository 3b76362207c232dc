# mypy: ignore-errors
# langchain is installed for its recordings only
"""An application on LangChain: the scenarios that several dialects record."""

from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from tests.corpus.record import script

RETRIEVED = "Oslo is the capital of Norway."


@tool
def get_weather(city: str) -> dict:
    """Current weather of a city."""
    return script.get_weather(city)


class Almanac(BaseRetriever):
    """A retriever that returns the same document for every question."""

    def _get_relevant_documents(self, query: str, *, run_manager: object) -> list[Document]:  # noqa: ARG002
        return [Document(page_content=RETRIEVED, id="doc-1", metadata={"page": 3})]


def chat() -> None:
    """Ask a prompt and a model, with a system prompt and an earlier exchange."""
    before = [("system", script.SYSTEM), ("user", script.HELLO), ("ai", script.GREETING)]
    prompt = ChatPromptTemplate([*before, ("user", "{question}")])
    (prompt | ChatOpenAI(model=script.CHAT_MODEL)).invoke({"question": script.NAME})


def model() -> None:
    """Ask the model by itself."""
    ChatOpenAI(model=script.CHAT_MODEL).invoke(script.CAPITAL)


def multimodal() -> None:
    """Ask a question with a picture."""
    picture = {"type": "image_url", "image_url": {"url": script.PICTURE_URL}}
    content = [{"type": "text", "text": script.PICTURE}, picture]
    ChatOpenAI(model=script.CHAT_MODEL).invoke([{"role": "user", "content": content}])


def streamed() -> None:
    """Stream an answer."""
    for _ in ChatOpenAI(model=script.CHAT_MODEL, stream_usage=True).stream(script.COUNT):
        pass


def retriever() -> None:
    """Query the almanac."""
    Almanac().invoke(script.CAPITAL)


def agent(question: str, **config: object) -> None:
    """Run an agent with a tool."""
    model = ChatOpenAI(model=script.CHAT_MODEL)
    create_agent(model, tools=[get_weather], name="assistant").invoke({"messages": [("user", question)]}, config=config)


def tool_error() -> None:
    """Run an agent whose tool raises, which ends the run."""
    try:
        agent(script.ATLANTIS)
    except ValueError:
        return
    raise AssertionError("the tool did not raise")
