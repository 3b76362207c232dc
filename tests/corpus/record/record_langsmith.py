# mypy: ignore-errors
# the libraries are those of record_langsmith.txt
"""LangSmith's own OpenTelemetry export, of LangChain."""

import os

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, export_traces, recording

MODEL = "ChatOpenAI"


def llm(question: str, turn: int = 0) -> Expected:
    """Claim one answer; cached tokens and the answering model are inside JSON texts."""
    return expect.llm(MODEL, question, turn)


def run(question: str, **everywhere: object) -> Expected:
    """Return the graph of the agent: a span around each step."""
    answers = script.ANSWERS[question]
    final = answers[-1].text
    spans = [
        {"name": "assistant", "kind": "chain", "input_contains": question, "output_contains": final},
        {"name": "model", "kind": "chain", "input_contains": question},
        llm(question),
    ]
    for call in answers[0].calls:
        spans += [{"name": "tools", "kind": "chain", "input_contains": call.id}, expect.tool(script.TOOL, call)]
    spans.append({"name": "model", "kind": "chain", "input_contains": question, "output_contains": final})
    spans.append(llm(question, 1))
    whole = trace(question, input=None, output=None, session=everywhere.get("session_id"))
    return expected(spans, whole, **everywhere)


def failed_run() -> Expected:
    """Claim a run that the tool's error ends: exceptions of type Exception, and empty objects as outputs."""
    question = script.ATLANTIS
    tokens = script.ANSWERS[question][0].tokens
    error = {"kind": "chain", "error": script.UNKNOWN_CITY, "error_type": "Exception"}
    spans = [
        {"name": "assistant", "input_contains": question, **error},
        {"name": "model", "kind": "chain", "input_contains": question},
        llm(question),
        {"name": "tools", "input_contains": script.LOST.id, **error},
        expect.tool(script.TOOL, script.LOST, error_type="Exception"),
    ]
    used = {"input_tokens": tokens.input, "output_tokens": tokens.output}
    return expected(spans, trace(question, input=None, output=None, final_response=None, **used))


def chain() -> Expected:
    """Return the prompt and the model below their sequence, which repeats the usage."""
    spans = [
        {"name": "RunnableSequence", "kind": "chain", "input_contains": script.NAME},
        {"name": "ChatPromptTemplate", "input_contains": script.NAME},
        llm(script.NAME),
    ]
    return expected(spans, trace(script.NAME, input=None, output=None))


def single(question: str) -> Expected:
    """Return the model by itself."""
    return expected([llm(question)], trace(question))


def retrieved() -> Expected:
    """Return a retriever, whose operation is said to be embeddings."""
    retriever = {
        "name": "Almanac",
        "kind": "retriever",
        "input_contains": script.CAPITAL,
        "output_contains": "Oslo is the",
    }
    return expected([retriever], trace())


def expected(spans: list[Expected], whole: Expected, **everywhere: object) -> Expected:
    """Return the content of `expected.json`."""
    return {"spans": expect.spans(*spans, dialect="langsmith", **everywhere), "trace": whole}


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    from langchain_core.tracers.langchain import wait_for_all_tracers
    from langsmith.run_trees import get_cached_client

    from tests.corpus.record import langchain_application as application

    recorder.flushes = [wait_for_all_tracers, get_cached_client().flush, *recorder.flushes]
    with recorder.scenario("chain", chain()):
        application.chat()
    with recorder.scenario("chat", single(script.CAPITAL)):
        application.model()
    with recorder.scenario("multimodal", single(script.PICTURE)):
        application.multimodal()
    with recorder.scenario("streamed", single(script.COUNT)):
        application.streamed()
    with recorder.scenario("retriever", retrieved()):
        application.retriever()
    with recorder.scenario("tool-call", run(script.WEATHER, session_id=script.SESSION)):
        application.agent(script.WEATHER, metadata={"session_id": script.SESSION})
    with recorder.scenario("parallel-tool-calls", run(script.COMPARE)):
        application.agent(script.COMPARE)
    with recorder.scenario("tool-error", failed_run()):
        application.tool_error()


def main() -> None:
    """Record the dialect."""
    with recording("langsmith") as recorder:
        os.environ |= {
            "LANGSMITH_TRACING": "true",
            "LANGSMITH_OTEL_ENABLED": "true",
            "LANGSMITH_OTEL_ONLY": "true",
            "LANGSMITH_API_KEY": "none",
            "LANGSMITH_PROJECT": "shop",
            "LANGCHAIN_REVISION_ID": "1",  # else the commit it runs in
        }
        export_traces(recorder)
        record(recorder)


if __name__ == "__main__":
    main()
