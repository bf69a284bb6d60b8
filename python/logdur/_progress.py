"""How far work is: a bar of tqdm in notebooks and on terminals, if tqdm is installed."""

from __future__ import annotations

import sys
from typing import Any, Optional

#: Seconds of work before a bar is shown.
_DELAY = 1.0


class _NoBar:
    """Shows nothing."""

    def __init__(self) -> None:
        self.total = None

    def update(self, count: int = 1) -> None:
        """Counts nothing."""

    def close(self) -> None:
        """Ends nothing."""


def bar(total: Optional[int], unit: str, wanted: Optional[bool]) -> Any:
    """A bar for ``total`` units. ``wanted`` is true, false, or None for where somebody looks."""
    if wanted is None:
        wanted = sys.stderr.isatty() or _is_notebook()
    if not wanted:
        return _NoBar()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _NoBar()
    return tqdm(total=total, unit=f" {unit}", delay=_DELAY)


def _is_notebook() -> bool:
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    return type(shell.get_ipython()).__name__ == "ZMQInteractiveShell"
