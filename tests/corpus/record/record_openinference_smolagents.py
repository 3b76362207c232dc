# mypy: ignore-errors
# the libraries are those of record_openinference_smolagents.txt
"""OpenInference on smolagents: a model that answers a question with a tool, called by hand."""

from openinference.instrumentation.smolagents import SmolagentsInstrumentor

from tests.corpus.record import expect, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import Recording, application_span, export_traces, recording


def expected() -> Expected:
    """Claim only the requested model; arguments are wrapped, and the tool's class is the span's name."""
    request = expect.llm("OpenAIModel.generate", script.WEATHER)
    ran = expect.tool("SimpleTool", script.OSLO, tool_call_id=None)
    used = {"input_tokens": request["input_tokens"], "output_tokens": request["output_tokens"]}
    lost = {"input": None, "output": None, "final_response": None}
    spans = expect.spans(expect.application(), request, ran, dialect="openinference")
    return {"spans": spans, "trace": trace(script.WEATHER, **used, **lost)}


def record(recorder: Recording) -> None:
    """Record each scenario once."""
    from smolagents import OpenAIServerModel, tool

    @tool
    def get_weather(city: str) -> dict:
        """Current weather of a city.

        Args:
            city: Its name.

        """
        return script.get_weather(city)

    model = OpenAIServerModel(script.CHAT_MODEL)
    ask = [{"role": "user", "content": [{"type": "text", "text": script.WEATHER}]}]
    with recorder.scenario("tool-call", expected()), application_span():
        model.generate(ask, tools_to_call_from=[get_weather])
        get_weather(**script.OSLO.arguments)


def main() -> None:
    """Record the dialect."""
    with recording("openinference-smolagents") as recorder:
        export_traces(recorder)
        SmolagentsInstrumentor().instrument()
        record(recorder)


if __name__ == "__main__":
    main()
