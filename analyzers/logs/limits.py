"""How much is kept of what was read of one job's logs."""

from __future__ import annotations

from typing import NamedTuple


class Limits(NamedTuple):
    """Records kept of each series (``recent`` ones without gaps, ``older`` ones thinned out), time stamps, last lines
    that are no progress, series in all and of unknown counters, characters of a quoted line, losses without a step,
    lines that tell of pauses."""

    recent: int = 400
    older: int = 400
    stamps: int = 400
    last_lines: int = 1000
    series: int = 3000
    mined: int = 300
    text: int = 600
    loose: int = 400
    signs: int = 400


#: For one log that is read by itself, and for each of very many that are watched at once (about 100 KiB).
USUAL = Limits()
SPARE = Limits(recent=64, older=64, stamps=64, last_lines=40, series=40, mined=10, text=240, loose=64, signs=64)
