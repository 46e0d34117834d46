"""A stand-in for a model provider that answers at once, in a process of its own, so that its work is not in a measured turn.

It speaks chat completions (streamed or not) and responses (not streamed). The path /last says how long the last request was.

    with StandIn() as provider:
        ...                                 # base_url=provider.url
        provider.last_request()             # bytes
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any, Self

REPLY = "The ferry was late, the gate stayed open until noon, and the harbour master wrote it down. " * 6
TOKEN_BYTES = 4
_numbers = count(1)


class StandIn:
    """The process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(10)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def last_request(self) -> int:
        """Return the bytes of the last request."""
        return last_request(self.url)


def last_request(url: str) -> int:
    """Return the bytes of the last request to a stand-in."""
    with urllib.request.urlopen(f"{url}/last", timeout=10) as answer:
        return int(answer.read())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet per answer
    last = 0

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.endswith("/last"):
            self.send(str(_Handler.last).encode(), "text/plain")
        else:
            self.send(b'{"object": "list", "data": [{"id": "stand-in", "object": "model"}]}')

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        _Handler.last = len(body)
        number, used = next(_numbers), len(body) // TOKEN_BYTES
        text = f"Answer {number}. {REPLY}"
        if self.path.endswith("/responses"):
            self.send(json.dumps(_response(number, text, used)).encode())
        elif b'"stream":true' in body or b'"stream": true' in body:
            self.send(_chunks(number, text, used), "text/event-stream")
        else:
            message = {"role": "assistant", "content": text}
            self.send(json.dumps(_chat(number, used, message=message, finish_reason="stop")).encode())

    def send(self, data: bytes, kind: str = "application/json") -> None:
        self.send_response_only(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()


def _chat(number: int, used: int, **choice: Any) -> dict[str, Any]:
    kind = "chat.completion.chunk" if "delta" in choice else "chat.completion"
    head = {"id": f"chatcmpl-{number}", "object": kind, "created": 1, "model": "stand-in"}
    usage = {"prompt_tokens": used, "completion_tokens": 9, "total_tokens": used + 9}
    return {**head, "choices": [{"index": 0, **choice}], "usage": usage}


def _chunks(number: int, text: str, used: int) -> bytes:
    said = _chat(number, used, delta={"role": "assistant", "content": text}, finish_reason=None)
    end = _chat(number, used, delta={}, finish_reason="stop")
    return b"".join(b"data: %b\n\n" % each for each in (json.dumps(said).encode(), json.dumps(end).encode(), b"[DONE]"))


def _response(number: int, text: str, used: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}
    usage = {"input_tokens": used, "output_tokens": 9, "total_tokens": used + 9}
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    head = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": "stand-in", "status": "completed"}
    rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "instructions": None}
    return {**head, **rest, "output": [item], "usage": {**usage, **details}}


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
