"""The way of a capture to workers: once to each machine, named by its content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Callable, Optional, Union

from ._capture import Capture, Dispatch
from ._errors import OptionError

#: Names the folder in which workers keep captures.
VARIABLE = "LOGDUR_CAPTURE_CACHE"
#: Bytes that are hashed at once.
_PIECE = 1 << 20

#: What is searched: a duration, or anything else that is better if it is smaller.
Objective = Callable[[Dispatch, dict[str, Any]], float]

#: Files whose content was compared with their names in this process.
_known: dict[str, tuple[int, int]] = {}


@dataclass(frozen=True)
class Parcel:
    """A capture as workers get it."""

    name: str
    dispatch: int
    place: dict[str, Any]
    types: dict[str, str]
    #: The file's bytes, if the worker's machine lacks it.
    content: Optional[bytes] = None

    def with_content(self, path: Union[str, os.PathLike[str]]) -> Parcel:
        """The same with the bytes of the file."""
        return replace(self, content=Path(path).read_bytes())


@dataclass(frozen=True)
class Missing:
    """The answer of a worker whose machine lacks the capture."""

    #: Host and folder.
    folder: str


@dataclass(frozen=True)
class Ran:
    """The answer of a worker that ran a trial."""

    value: Optional[float]
    error: Optional[str]
    seconds: float
    worker: str
    folder: str
    #: Every trial would fail as this one did.
    is_last: bool = False


class Params(dict[str, Any]):
    """The parameters of a trial. One that the search does not have ends it."""

    def __missing__(self, name: str) -> Any:
        raise OptionError(f"space: there is no parameter {name!r}; expected one of {', '.join(self)}")


def content_name(path: Union[str, os.PathLike[str]]) -> str:
    """The BLAKE2 hash of a file's bytes."""
    digest = hashlib.blake2b(digest_size=32)
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(_PIECE), b""):
            digest.update(piece)
    return digest.hexdigest()


def folder() -> Path:
    """The folder of captures on this machine. Only its owner may write there."""
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else Path(tempfile.gettempdir()) / f"logdur-captures-{os.getuid()}"
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = path.stat()
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"{path}: expected a folder that only user {os.getuid()} may write; {VARIABLE} names another")
    return path


@contextlib.contextmanager
def placed(capture: Capture) -> Iterator[str]:
    """Puts a capture into this machine's folder for as long as it is used; its name."""
    name = content_name(capture.path)
    path = folder() / f"{name}.ldcap"
    is_new = not path.exists()
    if is_new:
        try:
            os.link(capture.path, path)
        except OSError:
            _put(path, Path(capture.path))
    try:
        yield name
    finally:
        if is_new:
            path.unlink(missing_ok=True)


def run(parcel: Parcel, objective: Objective, params: dict[str, Any], call: int) -> Union[Missing, Ran]:
    """Runs a trial on a worker. ``call`` is another number each time, since Dask answers the same calls from memory."""
    home = folder()
    host = socket.gethostname()
    path = home / f"{parcel.name}.ldcap"
    if parcel.content is not None:
        _put(path, parcel.content)
    if not _is_whole(path, parcel.name):
        return Missing(f"{host}:{home}")
    start = time.monotonic()
    value, error, is_last = None, None, False
    try:
        capture = Capture(path, **parcel.place, types=parcel.types)
        value = float(objective(capture.dispatch(parcel.dispatch), Params(params)))
    except OptionError as failure:
        error, is_last = str(failure), True
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
    return Ran(value, error, time.monotonic() - start, f"{host}:{os.getpid()}", f"{host}:{home}", is_last)


def _put(path: Path, content: Union[bytes, Path]) -> None:
    """Makes a file at once, or not at all."""
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        try:
            if isinstance(content, bytes):
                file.write(content)
            else:
                with open(content, "rb") as source:
                    shutil.copyfileobj(source, file)
            file.close()
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _is_whole(path: Path, name: str) -> bool:
    """True for a file with this content; another one is removed."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return False
    seen = (status.st_ino, status.st_mtime_ns)
    if _known.get(name) == seen:
        return True
    if content_name(path) != name:
        path.unlink(missing_ok=True)
        return False
    _known[name] = seen
    return True
