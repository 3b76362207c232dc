"""The answers of the scripted model: the one world that every recorded application lives in."""

from collections.abc import Sequence
from dataclasses import dataclass, field

CHAT_MODEL = "gpt-4o-mini"
CHAT_MODEL_DATED = "gpt-4o-mini-2024-07-18"  # what the wire answers with
CLAUDE_MODEL = "claude-sonnet-4-5"
CLAUDE_MODEL_DATED = "claude-sonnet-4-5-20250929"
EMBEDDING_MODEL = "text-embedding-3-small"

CAPITAL = "What is the capital of Norway?"
NAME = "What is my name?"  # asked after SYSTEM, HELLO, GREETING
WEATHER = "What is the weather in Oslo?"
COMPARE = "Compare the weather in Oslo and Bergen."
ATLANTIS = "What is the weather in Atlantis?"
PICTURE = "What is in this picture?"
COUNT = "Count to three."
REFUSED = "Overload yourself."  # answered with status 400

SYSTEM = "You answer in one short sentence."
HELLO = "Hello, I am Ada."
GREETING = "Hello Ada."
PICTURE_URL = "https://example.com/cat.png"
UNKNOWN_CITY = "unknown city: Atlantis"
REFUSAL = "The model refuses this request."
SESSION = "session-7"
USER = "user-42"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the model asks for, and its result."""

    id: str
    arguments: dict[str, object]
    result: object  # None if the tool raises
    name: str = "get_weather"

    @property
    def city(self) -> str:
        """Return the city that the weather's tool is called with."""
        return str(self.arguments["city"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The token usage that an answer reports."""

    input: int
    output: int
    cached: int = 0  # counted in input
    reasoning: int = 0  # counted in output


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer of the model."""

    tokens: Tokens
    text: str = ""
    calls: Sequence[ToolCall] = field(default=())
    reasoning: str = ""
    refusal: str = ""
    is_cut: bool = False  # at the limit of output tokens
    model: str = ""  # the one that answers, instead of the dated one of this file


OSLO = ToolCall(id="call_oslo", arguments={"city": "Oslo"}, result={"celsius": 7, "sky": "rain"})
BERGEN = ToolCall(id="call_bergen", arguments={"city": "Bergen"}, result={"celsius": 9, "sky": "sun"})
LOST = ToolCall(id="call_atlantis", arguments={"city": "Atlantis"}, result=None)

TOOL = "get_weather"
TOOL_DESCRIPTION = "Current weather of a city."
TOOL_PARAMETERS: dict[str, object] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}
CHAT_TOOL = {
    "type": "function",
    "function": {"name": TOOL, "description": TOOL_DESCRIPTION, "parameters": TOOL_PARAMETERS},
}
RESPONSES_TOOL = {"type": "function", "name": TOOL, "description": TOOL_DESCRIPTION, "parameters": TOOL_PARAMETERS}
ANTHROPIC_TOOL = {"name": TOOL, "description": TOOL_DESCRIPTION, "input_schema": TOOL_PARAMETERS}

# A question's answers in the order of the turns: the second is given once the tools have answered.
ANSWERS: dict[str, tuple[Answer, ...]] = {
    CAPITAL: (Answer(text="The capital of Norway is Oslo.", tokens=Tokens(input=14, output=8)),),
    NAME: (Answer(text="Your name is Ada.", tokens=Tokens(input=45, output=11, cached=32, reasoning=5)),),
    WEATHER: (
        Answer(calls=(OSLO,), tokens=Tokens(input=61, output=17)),
        Answer(text="It rains in Oslo at 7 °C.", tokens=Tokens(input=92, output=13)),
    ),
    COMPARE: (
        Answer(calls=(OSLO, BERGEN), tokens=Tokens(input=63, output=34)),
        Answer(text="Bergen is warmer: 9 °C against 7 °C.", tokens=Tokens(input=124, output=16)),
    ),
    ATLANTIS: (
        Answer(calls=(LOST,), tokens=Tokens(input=62, output=18)),
        Answer(text="I could not find Atlantis.", tokens=Tokens(input=88, output=9)),
    ),
    PICTURE: (Answer(text="A cat on a red chair.", tokens=Tokens(input=1119, output=10)),),
    COUNT: (Answer(text="One, two, three.", tokens=Tokens(input=12, output=7)),),
}
EMBEDDING_TOKENS = 6
VECTOR = (0.25, -0.5, 0.125)


def cost_usd(tokens: Tokens) -> float:
    """Return the cost of the answer at the model's list price per million: 0.15 in, 0.075 cached, 0.60 out."""
    return round(((tokens.input - tokens.cached) * 0.15 + tokens.cached * 0.075 + tokens.output * 0.60) / 1e6, 12)


def get_weather(city: str) -> object:
    """Current weather of a city."""
    for call in (OSLO, BERGEN):
        if call.city == city and call.result is not None:
            return call.result
    raise ValueError(f"unknown city: {city}")
