"""Logs as data frames."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import IO, Any, Optional, Union

from . import _frames, _native, _progress

#: A path; or a file that is open, for text or for bytes.
Log = Union[str, "os.PathLike[str]", IO[str], IO[bytes]]


class LogWarning(UserWarning):
    """Lines of a log could not be read as rows."""


def _logs(given: Log | Iterable[Log]) -> list[tuple[str, Any]]:
    """The logs with their names; files that cannot be opened raise the error that ``open`` has for them."""
    all_given = [given] if isinstance(given, (str, os.PathLike)) or hasattr(given, "read") else list(given)
    logs: list[tuple[str, Any]] = []
    for one in all_given:
        if hasattr(one, "read"):
            name = getattr(one, "name", None)
            logs.append((name if isinstance(name, str) else f"<{type(one).__name__}>", one))
            continue
        path = os.fspath(one)
        for each in _native.logs_of(path) or [path]:
            with open(each, "rb"):
                pass
            logs.append((each, each))
    if not logs:
        raise ValueError("expected the path of a log, found an empty list")
    return logs


def _warn(unreadable: int, first: Optional[str], missing: int) -> None:
    if unreadable:
        warnings.warn(f"{unreadable} lines are no rows; the first: {first}", LogWarning, stacklevel=3)
    if missing:
        warnings.warn(f"{missing} rows are missing that were written, as the accounts say", LogWarning, stacklevel=3)


def read_log(
    path: Log | Iterable[Log],
    *,
    engine: Optional[str] = None,
    progress: Optional[bool] = None,
) -> Any:
    """The rows of one or more logs as a data frame: CSV or JSON, of one process or of many ranks.

    ``path`` may have ``%r``, ``%p`` or ``%h``, as in ``-l log.%r.csv``: it stands for the logs of all processes. What is open is read
    to its end, from where it is: files, pipes, and what ``gzip.open`` or ``io.StringIO`` make.

    ``engine`` is ``pandas``, ``polars`` or ``pyarrow``; without it, a library that is imported or installed is taken.
    Columns have the names that ``omniprobe export`` gives them: ``kernel``, ``startNs``, ``endNs``, ``durationNs``, ``gridX``
    and others. Numbers are integers of 64 bits, and empty cells are null. Texts are categories. Comment lines are no rows. For
    several logs, the column ``log`` has each row's file.

    Raises :class:`LogError` if a file is not a log, and ``OSError`` if it cannot be opened. A :class:`LogWarning` counts lines
    that cannot be read as rows, and names the first.

    >>> rows = logdur.read_log("log.csv", engine="pandas")
    >>> rows.columns[:5].tolist()
    ['kernel', 'dispatch', 'startNs', 'endNs', 'durationNs']
    >>> bool((rows.endNs - rows.startNs == rows.durationNs).all())
    True
    """
    import numpy as np

    name = _frames.engine(engine)
    logs = _logs(path)
    ends = [0]
    bar = _progress.bar(len(logs), "logs", progress)

    def count(_: int, rows: int) -> None:
        ends.append(rows)
        bar.update()

    try:
        read = _native.read_log(logs, count)
    finally:
        bar.close()
    columns = list(read["columns"])
    if len(logs) > 1:
        # Several open files may have one name.
        names = list(dict.fromkeys(name for name, _ in logs))
        numbers = np.array([names.index(name) for name, _ in logs], np.int32)
        columns.append(("log", "text", np.repeat(numbers, np.diff(ends)).tobytes(), names))
    _warn(read["unreadable"], read["first_unreadable"], read["missing"])
    return _frames.of_columns(columns, name)


@dataclass(frozen=True)
class Summary:
    """Totals of logs, as ``omniprobe summary`` has them."""

    #: A row for each group, the longest total time first: ``name``, ``calls``, ``totalNs``, ``medianNs`` and others.
    groups: Any
    #: A row for each GPU: ``busyNs``, ``idleNs``, ``concurrency`` and others.
    gpus: Any
    #: A row for each direction of copies.
    copies: Any
    #: How many rows there were.
    rows: int
    #: What the processes say became of their dispatches: ``seen``, ``logged`` and others.
    account: dict[str, int]

    def _repr_html_(self) -> Optional[str]:
        shown = getattr(self.groups, "_repr_html_", None)
        return None if shown is None else shown()


def summary(path: Log | Iterable[Log], *, by: str = "kernel", engine: Optional[str] = None) -> Summary:
    """The totals of one or more logs, given as for :func:`read_log`.

    ``by`` says what belongs together: ``kernel``, ``shape``, ``queue``, ``gpu``, ``process``, ``rank`` or ``log``.

    >>> totals = logdur.summary("log.csv", engine="pandas")
    >>> int(totals.groups.calls.sum()) == totals.rows
    True
    """
    name = _frames.engine(engine)
    totals = json.loads(_native.summary(_logs(path), by))
    _warn(totals["unreadable"], totals["firstUnreadable"], totals["missing"])
    groups, gpus, copies = (_frames.of_rows(totals[part], name) for part in ("groups", "gpus", "copies"))
    return Summary(groups, gpus, copies, totals["rows"], totals["accounts"])
