# mypy: ignore-errors
# the libraries are those of record_openinference_langchain.txt
"""OpenInference on LangChain and LangGraph."""

from openinference.instrumentation import using_attributes
from openinference.instrumentation.langchain import LangChainInstrumentor

from tests.corpus.record import expect, script
from tests.corpus.record import langchain_application as application
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_traces, recording

MODEL = "ChatOpenAI"


def run(question: str, **everywhere: object) -> Expected:
    """Return the graph of the agent: a span around each step."""
    answers = script.ANSWERS[question]
    final = answers[-1].text
    spans = [{"name": "assistant", "kind": "chain", "input": question, "output_contains": final}]
    spans += [{"name": "model", "kind": "chain", "input": question}, expect.llm(MODEL, question, 0)]
    for call in answers[0].calls:
        spans += [{"name": "tools", "kind": "chain", "input_contains": call.id}, tool(call)]
    spans.append({"name": "model", "kind": "chain", "input": question, "output_contains": final})
    spans.append(expect.llm(MODEL, question, 1))
    return expected(spans, trace(question, output=None, session=everywhere.get("session_id")), **everywhere)


def failed_run() -> Expected:
    """Claim a run that the tool's error ends; its span has lost the id of the call with its output."""
    question = script.ATLANTIS
    tokens = script.ANSWERS[question][0].tokens
    error = {"kind": "chain", "error": script.UNKNOWN_CITY, "error_type": "ValueError"}
    spans = [
        {"name": "assistant", "input": question, **error},
        {"name": "model", "kind": "chain", "input": question},
        expect.llm(MODEL, question, 0),
        {"name": "tools", "input_contains": script.LOST.id, **error},
        tool(script.LOST) | {"tool_call_id": None},
    ]
    used = {"input_tokens": tokens.input, "output_tokens": tokens.output}
    return expected(spans, trace(question, output=None, final_response=None, **used))


def tool(call: script.ToolCall) -> Expected:
    """Claim a tool's only argument without its name; the id of the call is in the serialized result."""
    return expect.tool(script.TOOL, call, input=call.city, tool_arguments=None, unclaimed=["tool_arguments"])


def chain() -> Expected:
    """Return the prompt and the model below their sequence."""
    spans = [
        {"name": "RunnableSequence", "kind": "chain", "input": script.NAME, "output_contains": "Your name is Ada."},
        {"name": "ChatPromptTemplate", "input": script.NAME},
        expect.llm(MODEL, script.NAME),
    ]
    return expected(spans, trace(script.NAME, output=None))


def single(question: str) -> Expected:
    """Return the model by itself."""
    return expected([expect.llm(MODEL, question)], trace(question))


def expected(spans: list[Expected], whole: Expected, **everywhere: object) -> Expected:
    """Return the content of `expected.json`."""
    spans = expect.spans(*spans, dialect="openinference", **everywhere)
    return {"spans": [expect.without_none(span) for span in spans], "trace": whole}


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    with recorder.scenario("chain", chain()):
        application.chat()
    with recorder.scenario("chat", single(script.CAPITAL)):
        application.model()
    with recorder.scenario("multimodal", single(script.PICTURE)):
        application.multimodal()
    with recorder.scenario("streamed", single(script.COUNT)):
        application.streamed()
    retriever = {"name": "Almanac", "kind": "retriever", "input": script.CAPITAL, "output_contains": application.FOUND}
    with recorder.scenario("retriever", expected([retriever], trace(input=script.CAPITAL))):
        application.retriever()
    user = {"session_id": script.SESSION, "user_id": script.USER}
    with recorder.scenario("tool-call", run(script.WEATHER, **user)), using_attributes(**user):
        application.agent(script.WEATHER)
    with recorder.scenario("parallel-tool-calls", run(script.COMPARE)):
        application.agent(script.COMPARE)
    with recorder.scenario("tool-error", failed_run()):
        application.tool_error()


def main() -> None:
    """Record the dialect."""
    with recording("openinference-langchain") as recorder:
        export_traces(recorder)
        LangChainInstrumentor().instrument()
        record(recorder)


if __name__ == "__main__":
    main()
