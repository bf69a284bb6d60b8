"""Exceptions. Each names the file and the reason, and has a status of ``omniprobe``."""

from __future__ import annotations

from typing import Any


class LogdurError(Exception):
    """What went wrong.

    ``status`` is the exit status of ``omniprobe`` that means the same; docs/statuses.md lists them.
    """

    status: int

    def __init__(self, message: str, status: int = 1) -> None:
        super().__init__(message, status)
        self.message = message
        self.status = status

    def __str__(self) -> str:
        return self.message

    @property
    def name(self) -> str:
        """The status in one word, like ``mismatch``."""
        return _row(self.status)[0]

    @property
    def advice(self) -> str:
        """What to do about it."""
        return _row(self.status)[1]


class LogError(LogdurError, ValueError):
    """A file is no log, or cannot be read as one."""


class CaptureError(LogdurError):
    """A capture is damaged, or lacks what was asked for."""


class OptionError(LogdurError, TypeError, KeyError):
    """A method has no such option, or a search no such parameter. It ends a search: each of its trials would fail."""


class ToolError(LogdurError):
    """``omniprobe`` ended with a status that is no result.

    ``results`` has what was found of other dispatches before.
    """

    results: list[Any]

    def __init__(self, message: str, status: int = 1, results: list[Any] | None = None) -> None:
        super().__init__(message, status)
        self.results = [] if results is None else results


def _row(status: int) -> tuple[str, str]:
    from . import _native

    for number, word, _, advice in _native.statuses():
        if number == status:
            return word, advice
    return f"status {status}", ""
