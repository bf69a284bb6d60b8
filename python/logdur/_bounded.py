"""Commands with limits: of time, of output, and of what they leave behind; and results that fit."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Optional

#: Seconds between looks at whether a command has ended.
_LOOK = 0.02
#: Seconds that processes may take to end after SIGTERM, and pipes to be read after the end.
_PATIENCE = 2.0
#: Seconds that processes may take to end after SIGKILL.
_END = 10.0
#: Bytes that are read from a pipe at once.
_PIECE = 1 << 16
#: What stands for what was left out.
_GAP = "\n[...]\n"
#: Shorter texts and lists are not cut.
_SHORT = 64


#: Source: the Linux kernel's `prctl.h`.
_PR_SET_CHILD_SUBREAPER = 36


class Cancelled(Exception):
    """Whoever asked no longer wants the answer."""


class Kept:
    """The beginning and the end of a stream."""

    def __init__(self, head: int, tail: int) -> None:
        self._limits = (head, tail)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        """Takes the next bytes."""
        self.total += len(piece)
        room = self._limits[0] - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        del self._tail[: max(0, len(self._tail) - self._limits[1])]

    @property
    def kept(self) -> int:
        """How many bytes are kept."""
        return len(self._head) + len(self._tail)

    @property
    def is_cut(self) -> bool:
        """True when bytes are left out."""
        return self.kept < self.total

    def text(self) -> str:
        """What is kept. Bytes that are no UTF-8 are written as ``\\xNN``."""
        parts = [bytes(self._head), bytes(self._tail)] if self.is_cut else [bytes(self._head + self._tail)]
        return _GAP.join(part.decode("utf-8", "backslashreplace") for part in parts)


@dataclass
class Ran:
    """A command that has ended."""

    #: Its status; minus the number of the signal that ended it. ``None`` when it was ended because its time was over.
    status: Optional[int]
    stdout: Kept
    stderr: Kept
    #: How long it ran.
    seconds: float


def run(
    command: Sequence[str],
    *,
    folder: Path,
    seconds: float,
    stdout: Kept,
    stderr: Kept,
    cancelled: threading.Event,
    variables: Optional[Mapping[str, str]] = None,
) -> Ran:
    """Runs a command, in a process that has called :func:`adopt`, one at a time. At its end, or when its time is over, no process that it
    has started is left.

    :raises Cancelled: when that is set; the command has ended then, too.
    :raises OSError: when it cannot be started.
    """
    environment = {**os.environ, **(variables or {})}
    begin = time.monotonic()
    # A session of its own: no key of the terminal reaches it.
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    readers = [_reader(child.stdout, stdout), _reader(child.stderr, stderr)]
    status: Optional[int] = None
    try:
        while True:
            try:
                status = child.wait(_LOOK)
                break
            except subprocess.TimeoutExpired:
                pass
            if cancelled.is_set():
                raise Cancelled
            if time.monotonic() - begin > seconds:
                break
        if status is not None:
            _join(readers)
    finally:
        end(child)
        _join(readers)
    return Ran(status, stdout, stderr, time.monotonic() - begin)


def _reader(pipe: Optional[IO[bytes]], kept: Kept) -> threading.Thread:
    def read() -> None:
        assert pipe is not None
        with pipe:
            while piece := os.read(pipe.fileno(), _PIECE):
                kept.add(piece)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    return thread


def _join(readers: Sequence[threading.Thread]) -> None:
    until = time.monotonic() + _PATIENCE
    for reader in readers:
        reader.join(max(0.0, until - time.monotonic()))


def adopt() -> None:
    """Makes this process the parent of what its children leave behind. All that descends from it belongs to the running command, then."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end(child: subprocess.Popen[bytes]) -> None:
    """Ends a process and all that descends from this one: asks first, unless it has ended."""
    if child.poll() is None:
        _kill(_descendants(), signal.SIGTERM)
        try:
            child.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            pass
    # A process may start another one while it is looked for; one that waits for a device ends only later.
    until = time.monotonic() + _END
    while (family := _descendants()) and time.monotonic() < until:
        _kill(family, signal.SIGKILL)
        child.poll()
        for pid in family - {child.pid}:
            try:
                os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                # Its parent is another one, which is killed, too.
                pass
        time.sleep(_LOOK)
    child.poll()


def _kill(family: set[int], number: int) -> None:
    for pid in family:
        try:
            os.kill(pid, number)
        except OSError:
            pass


def _parent(pid: int) -> Optional[int]:
    """The parent of a process. Source: proc_pid_stat(5)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name is between parentheses, and may have some of its own.
    fields = text.rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else None


def _descendants() -> set[int]:
    """The processes that descend from this one, also those that have ended and were not waited for."""
    parents = {int(name): _parent(int(name)) for name in os.listdir("/proc") if name.isdigit()}
    family: set[int] = set()
    grows = True
    while grows:
        more = {pid for pid, parent in parents.items() if parent == os.getpid() or parent in family} - family
        family |= more
        grows = bool(more)
    return family


def size(value: Any) -> int:
    """Bytes of a value in JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def fit(value: dict[str, Any], limit: int) -> list[dict[str, Any]]:
    """Cuts the longest lists and texts of a value until it has at most so many bytes in JSON. Returns what was cut: ``path``, ``kept``
    and ``of``.
    """
    cuts: dict[str, dict[str, Any]] = {}
    while (now := size(value)) > limit:
        place = _largest(value)
        if place is None:
            # Only objects are left, whose members have names.
            name = max(value, key=lambda name: size(value[name]))
            if value[name] is None:
                break
            value[name] = None
            cuts[name] = {"path": name, "kept": 0, "of": 1}
            continue
        holder, key, path = place
        whole = holder[key]
        # All long ones get the same share of the room; a bit less, for what is around them.
        keep = max(1, min(int(len(whole) * limit / now * 0.9), len(whole) - 1))
        if isinstance(whole, str):
            holder[key] = whole[: (keep + 1) // 2] + _GAP + whole[len(whole) - keep // 2 :]
        else:
            holder[key] = whole[:keep]
        first = cuts.get(path, {}).get("of", len(whole))
        cuts[path] = {"path": path, "kept": keep, "of": first}
    return list(cuts.values())


def _largest(value: Any) -> Optional[tuple[Any, Any, str]]:
    """The list or text that has most of a value: where it is held, and its path."""
    found: Optional[tuple[Any, Any, str]] = None
    path = ""
    while isinstance(value, (dict, list)) and value:
        items: list[tuple[Any, Any]] = list(value.items() if isinstance(value, dict) else enumerate(value))
        key, inner = max(items, key=lambda item: size(item[1]))
        path += (f".{key}" if path else str(key)) if isinstance(value, dict) else f"[{key}]"
        if isinstance(inner, (list, str)) and len(inner) > (_SHORT if isinstance(inner, str) else 1):
            found = (value, key, path)
        # The elements of a long list are of about one size: it is cut, not one of them.
        if isinstance(inner, list) and len(inner) > 1 and 2 * max(map(size, inner)) < size(inner):
            return found
        value = inner
    return found
