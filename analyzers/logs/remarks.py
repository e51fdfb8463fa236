"""What lines that count nothing say about the run: that it is done, pauses, has a broken loss, begins an evaluation."""

from __future__ import annotations

import re
from typing import Literal

from analyzers.logs.words import Worded

FINISHED = Worded(
    r"(?i)train(?:ing)? (?:has )?(?:completed|complete|finished|done|ended)|finished training|done training|"
    r"`?Trainer\.fit`? stopped|train_runtime|job (?:completed|finished)|early stopping|exiting program|all done",
    "train early exiting job done",
)
BROKEN = Worded(
    r"(?i)\bloss (?:is|was|became|becomes|has become|went to|turned|is now)\W{0,3}(?:-?inf|nan|not finite|non-?finite)"
    r"|non-?finite loss|\bnan loss|loss nan\b|loss scale already at minimum",
    "loss",
)
PAUSING = Worded(
    r"(?i)eval|validat|checkpoint|saving|sampling|testing|generating|compil",
    "eval validat checkpoint saving sampling testing generating compil",
)
#: What announces an evaluation whose bar says nothing of it.
EVAL_BEGINS = re.compile(r"\*{3,}\s*(?:Running\s+)?(?:Eval|Predict|Test|Valid)", re.I)
#: A line of configuration that names the steps from one pause to the next (not how many batches an evaluation takes).
_INTERVAL = Worded(
    r"(?i)(?<![a-z])(?P<kind>eval|valid|val|test|save|ckpt|checkpoint)\w{0,20}?[_.\- ](?:check_)?"
    r"(?:interval|every|steps|freq|period)\w{0,16}['\"]?[ \t]*(?:[=:]|\.{2,}|[ \t])[ \t.]*(?P<every>\d{1,9})(?![\w.])",
    "interval every steps freq period",
)


def named_interval(text: str) -> tuple[Literal["eval", "save"], int] | None:
    """Which kind of pause a line of configuration says to come every so many steps."""
    found = _INTERVAL.search(text, 300)
    if found is None or int(found["every"]) < 2:
        return None
    return "eval" if found["kind"].lower() in ("eval", "valid", "val", "test") else "save", int(found["every"])
