"""``python -m logdur``, and the program ``logdur``: the server for agents, the page of it, and ``omniprobe`` for all else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from . import _tool


def main() -> NoReturn:
    """Runs what the first word says."""
    first, rest = sys.argv[1:2], sys.argv[2:]
    if first == ["mcp"]:
        from ._mcp import main as serve

        sys.exit(serve(rest))
    if first == ["skill"] and not rest:
        sys.stdout.write((Path(__file__).parent / "SKILL.md").read_text(encoding="utf-8"))
        sys.exit(0)
    _tool.main()


if __name__ == "__main__":
    main()
