"""``python -m logdur`` is ``omniprobe``."""

from ._tool import main

main()
