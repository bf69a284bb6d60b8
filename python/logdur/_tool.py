"""The packaged programs: where they are, and how ``omniprobe`` is run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Callable, NoReturn, Optional

from ._errors import ToolError

#: Seconds that the tool may take to end after an interruption.
_PATIENCE = 5.0


def folder() -> Path:
    """The folder of ``omniprobe``, ``liblogdur.so`` and ``libkfdemu.so``.

    The variable ``LOGDUR_TOOLS`` names another one.
    """
    named = os.environ.get("LOGDUR_TOOLS")
    return Path(named) if named else Path(__file__).resolve().parent / "bin"


def omniprobe() -> Path:
    """The program ``omniprobe``.

    >>> logdur.omniprobe().name
    'omniprobe'
    """
    path = folder() / "omniprobe"
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no omniprobe there; LOGDUR_TOOLS names the folder that has it")
    return path


def library() -> Path:
    """The library ``liblogdur.so``, as the variable ``HSA_TOOLS_LIB`` takes it."""
    return folder() / "liblogdur.so"


def main() -> NoReturn:
    """Becomes ``omniprobe`` with the arguments of this process."""
    try:
        path = omniprobe()
        os.execv(path, ["omniprobe", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"logdur: {error}")


def lines(
    arguments: Sequence[object],
    answers: Iterable[int],
    each: Optional[Callable[[Any], object]] = None,
) -> list[Any]:
    """Runs ``omniprobe`` and returns its lines of JSON; ``each`` sees each when it is there.

    Statuses other than 0 and ``answers`` raise :class:`ToolError`. An interruption ends the tool, too.
    """
    command = [str(omniprobe()), *map(str, arguments)]
    results: list[Any] = []
    # A pipe for messages would have to be emptied at the same time.
    with tempfile.TemporaryFile() as messages:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=messages)
        try:
            assert child.stdout is not None
            for line in child.stdout:
                result = json.loads(line)
                results.append(result)
                if each is not None:
                    each(result)
            status = child.wait()
        except BaseException:
            end(child)
            raise
        child.stdout.close()
        messages.seek(0)
        said = messages.read().decode(errors="replace").strip()
    # Without a line, a status says what kept the tool from its work.
    if status == 0 or (status in answers and results):
        return results
    if status < 0:
        raise ToolError(f"omniprobe was ended by signal {-status}: {said}", 5, results)
    raise ToolError(said.replace("omniprobe: ", "", 1) or f"omniprobe ended with status {status}", status, results)


def end(child: subprocess.Popen[Any]) -> None:
    """Ends a process and those that it has started."""
    family = [child.pid, *_descendants(child.pid)]
    child.terminate()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    for pid in family[1:]:
        try:
            os.kill(pid, 9)
        except OSError:
            pass
    if child.stdout is not None:
        child.stdout.close()


def _descendants(pid: int) -> list[int]:
    """The processes that a process has started, as /proc lists them."""
    found = []
    try:
        tasks = [f"/proc/{pid}/task/{task}/children" for task in os.listdir(f"/proc/{pid}/task")]
        for task in tasks:
            with open(task) as file:
                found += [int(child) for child in file.read().split()]
    except OSError:
        return found
    return found + [deeper for child in found for deeper in _descendants(child)]
