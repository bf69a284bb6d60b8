"""A server of the Model Context Protocol, on standard input and output: the tools of :mod:`logdur._mcp_tools` for agents.

Source: the specification of 2025-06-18. A message is a line of JSON. Calls of tools run one after the other, since replays that measure
must not disturb each other; other requests are answered meanwhile.
"""

from __future__ import annotations

import argparse
import json
import queue
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Optional

from ._bounded import Cancelled, adopt
from ._mcp_tools import TOOLS, Limits, ToolFailure, arguments_of, call

#: The version of the protocol.
VERSION = "2025-06-18"
#: Bytes of a message at most.
_MESSAGE = 4 << 20

# JSON-RPC 2.0, "Error object".
_PARSE_ERROR = -32700
_INVALID_REQUEST = -32600
_METHOD_NOT_FOUND = -32601
_INVALID_PARAMS = -32602
_INTERNAL_ERROR = -32603

_INSTRUCTIONS = """\
Tools for the kernels that applications run on AMD GPUs: log them (run, summary), capture them with their memory (capture), replay a
captured dispatch and compare every byte (verify), count what its instructions do (analyze), and search for a faster configuration (tune).
No GPU is needed: pass emulate="gfx90a" to run and capture, backend="emu" to verify and tune. Times of an emulated GPU say nothing about
hardware. Files are below the folders that the server was started with. `cut` in a result lists what was left out."""


class _Refused(Exception):
    """A request that gets an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Server:
    """One connection."""

    def __init__(self, limits: Limits, tools: Sequence[str], output: BinaryIO) -> None:
        self._limits = limits
        self._tools = {tool.name: tool for tool in TOOLS if tool.name in tools}
        self._output = output
        self._write = threading.Lock()
        self._is_initialized = False
        #: What is asked for and not answered.
        self._running: dict[Any, threading.Event] = {}
        self._calls: queue.Queue[Optional[tuple[Any, str, dict[str, Any], threading.Event]]] = queue.Queue()
        self._worker = threading.Thread(target=self._work, daemon=True)

    def serve(self, source: BinaryIO) -> None:
        """Answers until there are no more requests, then ends what still runs."""
        self._worker.start()
        try:
            while line := source.readline(_MESSAGE + 1):
                if len(line) > _MESSAGE:
                    while not line.endswith(b"\n") and line:
                        line = source.readline(_MESSAGE)
                    self._error(None, _PARSE_ERROR, f"expected a message of at most {_MESSAGE} bytes, found a longer one")
                elif line.strip():
                    self._take(line)
        finally:
            for event in list(self._running.values()):
                event.set()
            self._calls.put(None)
            self._worker.join()

    def _send(self, message: dict[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        try:
            with self._write:
                self._output.write(line)
                self._output.flush()
        except (BrokenPipeError, ValueError):
            # Nobody listens: the end of the input ends the server, too.
            pass

    def _error(self, number: Any, code: int, message: str) -> None:
        self._send({"id": number, "error": {"code": code, "message": message}})

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._error(None, _PARSE_ERROR, f"expected a message in JSON: {error}")
            return
        number = message.get("id") if isinstance(message, dict) else None
        is_number = isinstance(number, (int, str)) and not isinstance(number, bool)
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not (number is None or is_number):
            number = number if is_number else None
            self._error(number, _INVALID_REQUEST, "expected an object with jsonrpc 2.0 and an id that is a number or a text")
            return
        method, params = message.get("method"), message.get("params", {})
        if not isinstance(method, str):
            # An answer: this server asks for nothing.
            if "result" not in message and "error" not in message:
                self._error(number, _INVALID_REQUEST, "expected a method")
            return
        if "id" not in message:
            self._notified(method, params)
            return
        try:
            if number is None:
                raise _Refused(_INVALID_REQUEST, "expected an id that is a number or a text, found null")
            if not isinstance(params, dict):
                raise _Refused(_INVALID_PARAMS, "expected params that are an object")
            result = self._asked(number, method, params)
        except _Refused as error:
            self._error(number, error.code, str(error))
        else:
            if result is not None:
                self._send({"id": number, "result": result})

    def _notified(self, method: str, params: Any) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            number = params.get("requestId")
            event = self._running.get(number) if isinstance(number, (int, str)) else None
            if event is not None:
                event.set()

    def _asked(self, number: Any, method: str, params: dict[str, Any]) -> Optional[dict[str, Any]]:
        """The result of a request; ``None`` if it comes later."""
        if method == "ping":
            return {}
        if method == "initialize":
            self._is_initialized = True
            server = {"name": "logdur", "title": "logdur", "version": _version()}
            capabilities: dict[str, Any] = {"tools": {}}
            return {
                "protocolVersion": VERSION,
                "capabilities": capabilities,
                "serverInfo": server,
                "instructions": _INSTRUCTIONS,
            }
        if method not in ("tools/list", "tools/call"):
            raise _Refused(_METHOD_NOT_FOUND, f"expected ping, initialize, tools/list or tools/call, found {method}")
        if not self._is_initialized:
            raise _Refused(_INVALID_REQUEST, f"expected initialize before {method}")
        if method == "tools/list":
            return {"tools": [tool.described(self._limits) for tool in self._tools.values()]}
        name = params.get("name")
        tool = self._tools.get(name) if isinstance(name, str) else None
        if tool is None:
            raise _Refused(_INVALID_PARAMS, f"expected a tool: {', '.join(self._tools)}; found {name!r}")
        if number in self._running:
            raise _Refused(_INVALID_REQUEST, f"expected a new id, found {number!r}, which is not answered yet")
        try:
            arguments = arguments_of(tool, params.get("arguments", {}), self._limits)
        except ValueError as error:
            raise _Refused(_INVALID_PARAMS, f"{tool.name}: {error}") from error
        event = threading.Event()
        self._running[number] = event
        self._calls.put((number, tool.name, arguments, event))
        return None

    def _work(self) -> None:
        while (asked := self._calls.get()) is not None:
            number, name, arguments, event = asked
            try:
                if event.is_set():
                    raise Cancelled
                answer = call(self._tools[name], arguments, self._limits, event)
            except Cancelled:
                # Nobody wants an answer.
                self._running.pop(number, None)
                continue
            except ToolFailure as error:
                answer = _failed(str(error))
            except Exception as error:  # noqa: BLE001 - the next call is answered nevertheless
                self._running.pop(number, None)
                self._error(number, _INTERNAL_ERROR, f"{name}: {type(error).__name__}: {error}")
                continue
            self._running.pop(number, None)
            self._send({"id": number, "result": answer})


def _failed(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"error": text}, "isError": True}


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("logdur")
    except PackageNotFoundError:
        return "0"


def main(words: Sequence[str]) -> int:
    """``logdur mcp``: serves until the input ends."""
    parser = argparse.ArgumentParser(prog="logdur mcp", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--root", action="append", type=Path, metavar="DIR", help="files are below this folder [default: the current one]; repeatable"
    )
    parser.add_argument("--seconds", type=float, default=600.0, metavar="S", help="a call takes at most so long [default: 600]")
    parser.add_argument(
        "--bytes", type=int, default=1 << 16, metavar="N", help="a result has at most so many bytes of JSON [default: 65536]"
    )
    names = [tool.name for tool in TOOLS]
    parser.add_argument("--tool", action="append", choices=names, help="offer only this tool; repeatable [default: all]")
    options = parser.parse_args(words)
    roots = [root.resolve() for root in options.root or [Path.cwd()]]
    for root in roots:
        if not root.is_dir():
            parser.error(f"--root {root}: expected a folder")
    if not 0 < options.seconds < float("inf"):
        parser.error(f"--seconds {options.seconds}: expected a time")
    if options.bytes < 4096:
        parser.error(f"--bytes {options.bytes}: expected at least 4096")
    server = Server(Limits(roots, options.seconds, options.bytes), options.tool or names, sys.stdout.buffer)

    def ended(number: int, _frame: object) -> NoReturn:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, ended)
    adopt()
    try:
        server.serve(sys.stdin.buffer)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0
