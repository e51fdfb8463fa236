"""Flags that say how a trace is read, the same for every command that reads one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

TraceFile = Annotated[
    Path,
    typer.Argument(help="Trace of jobs, plain or packed (gzip, xz, zstd).", metavar="TRACE", show_default=False),
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="Trace format (schedmate trace formats); found out if not given.", metavar="NAME"),
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", help="Take NAME from this column of a CSV; repeat for more.", metavar="NAME=HEADER"),
]
TimeUnit = Annotated[str, typer.Option("--time-unit", help="Unit of CSV times: s, ms, min or h.", metavar="UNIT")]
Delimiter = Annotated[str, typer.Option("--delimiter", help="One character or tab.", metavar="CHAR")]
Timezone = Annotated[
    str,
    typer.Option("--timezone", help="Zone of times that state none: Europe/Berlin, UTC, +02:00.", metavar="ZONE"),
]
