"""A chat model that goes on with a conversation."""

from evaluators.chat.client import Answered, ChatModel
from evaluators.chat.connection import ModelConnection
from evaluators.chat.dialogue import Dialogue
from evaluators.chat.request_budget import RequestBudget


class ChatSpeaker:
    """Asks a model for the next message, with parameters of its own, and has each request paid."""

    def __init__(self, model: ChatModel, connection: ModelConnection, request_budget: RequestBudget) -> None:
        """`connection` is that of the model, but for what is wanted of this conversation."""
        self._model = model
        self._connection = connection
        self._toll = request_budget

    async def __call__(self, dialogue: Dialogue) -> Answered:
        """Ask.

        Raises:
            NotSendable: the conversation has something that the protocol has no place for.
            Broken: there is no answer; its kind says why.
        """
        return await self._model.converse(dialogue, self._connection, self._toll)
