# mypy: ignore-errors
# the libraries are those of record_openllmetry_openai.txt
"""OpenLLMetry (Traceloop) on the OpenAI client: messages with parts, in attributes."""

from dataclasses import replace

from opentelemetry.instrumentation.openai import OpenAIInstrumentor

from tests.corpus.record import expect, openai_application, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import export_traces, recording

ITEM_ID = "fc_call_oslo"


class OpenLLMetry(openai_application.Dialect):
    """A dialect with spans named after the endpoint."""

    dialect = "openllmetry"
    chat_name = "openai.chat"
    responses_name = "openai.response"
    embedding_name = "openai.embeddings"

    def response(self, question: str, turn: int) -> Expected:
        """Claim calls by the id of their item, and results, if sent, by the id of the call."""
        item = expect.asks_tools(replace(script.OSLO, id=ITEM_ID))
        sent_messages = [
            expect.text("user", question),
            expect.asks_tools(script.OSLO),
            expect.tool_answers(script.OSLO),
        ]
        messages = {"input_messages": sent_messages} if turn else {"output_messages": [item]}
        return expect.llm(self.responses_name, question, turn, **messages)

    def responses(self, question: str) -> Expected:
        """Claim the call with the id of its result."""
        call = {"call_id": script.OSLO.id, "name": script.TOOL, "arguments": script.OSLO.arguments}
        whole = trace(question, input=None, output=None, tool_calls=[call])
        return self.expected([expect.application(), *self.turns(self.response, question)], whole)


def main() -> None:
    """Record the dialect."""
    from openai import OpenAI

    with recording("openllmetry-openai") as recorder:
        export_traces(recorder)
        OpenAIInstrumentor().instrument()
        openai_application.record(recorder, OpenAI(), OpenLLMetry())


if __name__ == "__main__":
    main()
