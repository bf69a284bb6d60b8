"""Logs, captures and replays of the kernels that AMD GPU applications dispatch.

``read_log`` and ``summary`` read logs. ``Capture`` opens a capture: arguments and memory as NumPy's, and replays. ``tune``
searches for a faster kernel. The programs ``omniprobe`` and the libraries that it loads are in the package.
"""

from __future__ import annotations

from ._capture import Argument, Buffer, Capture, CodeObject, Dispatch, Memory
from ._errors import CaptureError, LogdurError, LogError, OptionError, ToolError
from ._logs import LogWarning, Summary, read_log, summary
from ._results import Analysis, BufferResult, Compared, Difference, Measured, Replayed, Results, Side, Timing
from ._tool import library, omniprobe
from ._tune import Trial, Tuning, tune

__all__ = [
    "Analysis",
    "Argument",
    "Buffer",
    "BufferResult",
    "Capture",
    "CaptureError",
    "CodeObject",
    "Compared",
    "Difference",
    "Dispatch",
    "LogError",
    "LogWarning",
    "LogdurError",
    "Measured",
    "Memory",
    "OptionError",
    "Replayed",
    "Results",
    "Side",
    "Summary",
    "Timing",
    "ToolError",
    "Trial",
    "Tuning",
    "library",
    "omniprobe",
    "read_log",
    "summary",
    "tune",
]
