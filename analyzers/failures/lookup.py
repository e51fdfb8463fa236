"""What lines above one say about it: the process that a traceback comes from, the pod that is described."""

from __future__ import annotations

import re

from analyzers.failures.block import Block
from analyzers.failures.keeping import IGNORED_LINES
from analyzers.failures.topology import DESCRIBED_POD

#: A traceback is no longer than this where the line above it is looked for.
ANNOUNCED_LINES = 80
#: A pod's description is no longer than this before its events.
DESCRIPTION_LINES = 120

_SPAWNED = re.compile(r"-- Process (\d{1,5}) terminated with the following error")
_ANNOUNCES = re.compile(
    r"(?<![Ll]ocal[ _])(?<![Nn]ode[ _])\b[Rr]ank[ =:#]{0,2}(\d{1,6})\b.*(?:[Ee]rror|[Ee]xception|[Cc]aught|[Ff]ail)"
)


def rank_of_traceback(block: Block, index: int) -> int | None:
    """The process that `torch.multiprocessing`, or the line above the traceback at hand, says that it comes from."""
    for line in block.lines(index - IGNORED_LINES * 2, index)[::-1]:
        if found := _SPAWNED.match(line):
            return int(found[1])
    above = block.lines(index - ANNOUNCED_LINES, index)
    for at in range(len(above) - 1, 0, -1):
        if "Traceback (most recent" in above[at]:
            told = _ANNOUNCES.search(above[at - 1][:300])
            return int(told[1]) if told else None
    return None


def described_pod(block: Block, index: int) -> str | None:
    """The pod in whose description (`kubectl describe pods`) a line stands."""
    for line in block.lines(index - DESCRIPTION_LINES, index)[::-1]:
        if found := DESCRIBED_POD.match(line):
            return found[1]
    return None
