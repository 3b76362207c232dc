"""A server that answers requests with the very bytes that a script says, and counts its connections."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class WireServer:
    """A server with scripted responses that records its requests."""

    answers: list[bytes]  # of each request the next, the last one again and again
    closes: bool  # the connection, after each answer
    heads: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(line for line in head.lower().split("\r\n") if line.startswith("content-length:"))
                body = await reader.readexactly(int(length.partition(":")[2]))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                self.heads.append(head)
                self.bodies.append(body)
                writer.write(answer)
                await writer.drain()
                if self.closes:
                    return
        except (OSError, asyncio.IncompleteReadError):  # the client has gone
            pass
        finally:
            writer.close()


@asynccontextmanager
async def a_wire_server(
    answers: Sequence[bytes], *, closes: bool = False, tls: ssl.SSLContext | None = None
) -> AsyncIterator[WireServer]:
    """Serve on a free port."""
    wire = WireServer(answers=list(answers), closes=closes)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0, ssl=tls)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
