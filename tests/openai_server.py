"""A server that speaks OpenAI's API, on this machine, and misbehaves when it is told to."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from actrone_memory import HashingEmbedder

DIMENSIONS = 64
KEY = "sk-proj-0123456789abcdef"


class Reply(NamedTuple):
    """What is sent instead of the usual answer; ``cut`` closes the connection after so many bytes."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed
    delay_seconds: float = 0
    cut: int | None = None


class Request(NamedTuple):
    """What was asked."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    connection: int
    at: float


Misbehaviour = Reply | Callable[[dict[str, Any]], Any]
"""A reply, or what makes another answer of the usual one."""


def refused(status: int, message: str, code: str | None = None, **headers: str) -> Reply:
    """An error as OpenAI words it."""
    error = {"message": message, "type": "error", "param": None, "code": code}
    return Reply(status, {"error": error}, {name.replace("_", "-"): value for name, value in headers.items()})


class OpenAIServer:
    """Embeds by hashing words; a chat answers with the texts in ``says``, the last one for ever."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.script: deque[Misbehaviour] = deque()
        """One for each request, in order; afterwards the server behaves."""
        self.says: deque[str] = deque(["Noted."])
        self.embedder = HashingEmbedder(DIMENSIONS)
        self.as_floats = False
        self.open_connections = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, request: Request) -> Reply:
        """What is sent for this request, misbehaviour included."""
        with self._lock:
            self.requests.append(request)
            wrong = self.script.popleft() if self.script else None
        if isinstance(wrong, Reply):
            return wrong
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return refused(401, f"Incorrect API key provided: {request.headers['authorization']}", "invalid_api_key")
        usual = self._embeddings(request.body) if request.path.endswith("/embeddings") else self._chat()
        return Reply(body=wrong(usual.body)) if wrong and usual.status == 200 else usual

    def _embeddings(self, asked: dict[str, Any]) -> Reply:
        texts = asked["input"]
        if not all(texts) or len(texts) > 2048:
            return refused(400, "'$.input' is invalid.")
        costs = [len(text.encode()) // 2 for text in texts]
        if max(costs) > 8192 or sum(costs) > 300_000:
            return refused(400, "This model's maximum context length is 8192 tokens.", "context_length_exceeded")
        vectors = asyncio.run(self.embedder.embed_batch(texts))
        packed = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
        plain = self.as_floats or asked.get("encoding_format") != "base64"
        data = [
            {"object": "embedding", "index": index, "embedding": vectors[index] if plain else packed[index]}
            for index in range(len(texts))
        ]
        return Reply(body={"object": "list", "data": data, "model": asked["model"], "usage": {}})

    def _chat(self) -> Reply:
        with self._lock:
            text = self.says[0] if len(self.says) == 1 else self.says.popleft()
        message = {"role": "assistant", "content": text}
        return Reply(body={"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outside = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with outside._lock:
                    outside.open_connections += 1

            def finish(self) -> None:
                super().finish()
                with outside._lock:
                    outside.open_connections -= 1

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                request = Request(self.path, body, headers, id(self), time.monotonic())
                self._send(outside.answer(request))

            def _send(self, reply: Reply) -> None:
                content = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                time.sleep(reply.delay_seconds)
                try:
                    if reply.cut == 0:
                        self.close_connection = True
                        return
                    self.send_response(reply.status)
                    for name, value in {"content-type": "application/json", **reply.headers}.items():
                        self.send_header(name, value)
                    self.send_header("content-length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content[: reply.cut])
                    self.close_connection = reply.cut is not None
                except OSError:
                    self.close_connection = True  # the other side gave up

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        return Handler
