"""What lines that count nothing say about the run: that it is done, pauses, has a broken loss, begins an evaluation."""

from __future__ import annotations

import re

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
