"""Logs as data frames."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _frames, _native, _progress

#: A path.
Path = Union[str, "os.PathLike[str]"]


class LogWarning(UserWarning):
    """Lines of a log could not be read as rows."""


def _paths(path: Path | Iterable[Path]) -> list[str]:
    """The paths as texts; files that cannot be opened raise the error that ``open`` has for them."""
    given = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    paths = [os.fspath(one) for one in given]
    if not paths:
        raise ValueError("expected the path of a log, found an empty list")
    for one in paths:
        with open(one, "rb"):
            pass
    return paths


def _warn(unreadable: int, first: Optional[str]) -> None:
    if unreadable:
        warnings.warn(f"{unreadable} lines are no rows; the first: {first}", LogWarning, stacklevel=3)


def read_log(
    path: Path | Iterable[Path],
    *,
    engine: Optional[str] = None,
    progress: Optional[bool] = None,
) -> Any:
    """The rows of one or more logs as a data frame: CSV or JSON, of one process or of many ranks.

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
    paths = _paths(path)
    ends = [0]
    bar = _progress.bar(len(paths), "logs", progress)

    def count(_: int, rows: int) -> None:
        ends.append(rows)
        bar.update()

    try:
        read = _native.read_log(paths, count)
    finally:
        bar.close()
    columns = list(read["columns"])
    if len(paths) > 1:
        places = np.repeat(np.arange(len(paths), dtype=np.int32), np.diff(ends))
        columns.append(("log", "text", places.tobytes(), paths))
    _warn(read["unreadable"], read["first_unreadable"])
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


def summary(path: Path | Iterable[Path], *, by: str = "kernel", engine: Optional[str] = None) -> Summary:
    """The totals of one or more logs.

    ``by`` says what belongs together: ``kernel``, ``shape``, ``queue``, ``gpu``, ``process`` or ``log``.

    >>> totals = logdur.summary("log.csv", engine="pandas")
    >>> int(totals.groups.calls.sum()) == totals.rows
    True
    """
    name = _frames.engine(engine)
    totals = json.loads(_native.summary(_paths(path), by))
    _warn(totals["unreadable"], totals["firstUnreadable"])
    groups, gpus, copies = (_frames.of_rows(totals[part], name) for part in ("groups", "gpus", "copies"))
    return Summary(groups, gpus, copies, totals["rows"], totals["accounts"])
