"""A server of a language model without the model: answers stream with known delays.

Usage: python streaming_server.py PORT [GPU_FAULTS LINE]

With a file and a line it holds a simulated GPU while it runs: the line is written there. With
STREAMING_KEY it wants that as a bearer token; with STREAMING_PEM, which holds a key and a
certificate, it speaks TLS.
"""

import json
import os
import ssl
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self._forbids():
            return
        self._answer(json.dumps({"data": [{"id": "delays"}]}).encode(), 200)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._forbids():
            return
        if asked.get("refuse"):
            self._answer(b"too much is asked", 503)
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self._send({"choices": [{"delta": {"role": "assistant"}}]})  # no text yet
        time.sleep(asked.get("first_s", 0.0))
        for number in range(asked["max_tokens"]):
            if number:
                time.sleep(asked.get("next_s", 0.0))
            if number == asked.get("break_after"):
                self.close_connection = True
                self.wfile.write(b"0\r\n\r\n")
                return
            self._send({"choices": [{"delta": {"content": "word "}}]})
        self._send({"choices": [{"delta": {}, "finish_reason": "length"}]})
        if asked.get("tell_usage", True):
            self._send({"choices": [], "usage": {"completion_tokens": 2 * asked["max_tokens"]}})
        self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _forbids(self):
        key, given = os.environ.get("STREAMING_KEY"), self.headers.get("Authorization")
        if key is None or given == f"Bearer {key}":
            return False
        self._answer(f"not {given}, but {key}".encode(), 401)
        return True

    def _send(self, event):
        self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _chunk(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _answer(self, body, status):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main(port, faults=None, line=""):
    if faults is not None:
        draft = Path(f"{faults}.new")
        draft.write_text(line.replace("PID", str(os.getpid())) + "\n")
        draft.replace(faults)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    if "STREAMING_PEM" in os.environ:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(os.environ["STREAMING_PEM"])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
