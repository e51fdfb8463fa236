"""What makes a line worth reading for progress, as patterns for `analyzers.logs.blockscan`.

All are looser than what reads the line afterwards; a line that none of them fits says nothing about progress.
"""

from __future__ import annotations

import re
from functools import lru_cache

from analyzers.logs.blockscan import BlockScanner, Pattern, compiled
from analyzers.logs.ending import SIGNS
from analyzers.logs.formats import known_formats
from analyzers.logs.remarks import BROKEN, FINISHED, PAUSING

_COUNTERS = "step|iter|itr|batch|update|epoch|episode|round|frame|sample|token|trial|generation"

#: Grouped by what a line of progress has most likely; rows of numbers alone are met by sampling.
_COUNTER = (rf"(?:{_COUNTERS})[^0-9\r\n]{{0,16}}[0-9]",)
_LOSS = (r"loss[^\r\n]{0,12}[0-9]",)
_AMOUNT = (
    r"(?:^|[^0-9/])[0-9]+[ \t]*(?:/|of|out of)[ \t]*[0-9,]+(?:[^0-9/,]|$)",
    r"[a-z]{2}[\"']?[=:] ?[0-9]",
)
_SELDOM = (
    r"[0-9] ?%",
    r"(?:it|steps?|iters?|samples?|tokens?|examples?|images|img)/s|(?:s|ms)/(?:it|step)",
    r"(?:max|total|num|train|n)[a-z_ -]{0,24}(?:steps|iter(?:ation)?s|epochs|updates)",
    r"\b(?:nan|inf)\b",
)
#: A line that says which epoch begins and nothing else: what follows it needs it.
_EPOCH = r"epoch[ \t#:=\[(]*[0-9]+(?:[ \t]*(?:/|of)[ \t]*[0-9]+)?[\])}\s:.=*-]*[\r\n]"
#: What may tell of a checkpoint; few lines do, and none of those found is passed over.
_SAVES = (
    r"\bsaving\b",
    r"\b(?:saved|wrote|committed|finali[sz]ed)\b",
    r"(?:check-?point|ckpt)[^\r\n]{0,40}(?:written|stored|ready|complete|is done)",
    r"no space left|quota exceeded|fail[a-z]{0,3} to (?:save|write)",
    r"(?:resum|restor)[a-z]{1,4} [^\r\n]{0,30}from",
    r"(?:delet|remov)[a-z]{1,4} [^\r\n]{0,20}(?:check-?point|ckpt)",
)
_LINE_START = re.compile(r"(?<![\[\\])\^")

#: Index of the pattern of epochs' beginnings.
EPOCH = 0
_DENSE = (_COUNTER, _LOSS, _AMOUNT)
#: What a known format's lines contain is looked for where it is at least so long.
_TELLING_CHARS = 4


@lru_cache(maxsize=1)
def scanner() -> BlockScanner | None:
    """The scanner for lines worth reading; None where no compiled matcher is installed."""
    return compiled([_seldom(), *([Pattern(expression) for expression in group] for group in _DENSE)])


@lru_cache(maxsize=1)
def _seldom() -> tuple[Pattern, ...]:
    signs = [sign.pattern.pattern for sign in SIGNS]  # they are read behind a line's prefix
    loose = [
        _LINE_START.sub("", expression) for expression in (FINISHED.pattern.pattern, BROKEN.pattern.pattern, *signs)
    ]
    telling = {max(known.contains, key=len) for known in known_formats() if known.contains}
    names = [re.escape(text) for text in sorted(telling) if len(text) >= _TELLING_CHARS]
    return (
        Pattern(_EPOCH, every=True),
        *(Pattern(expression, caseless=False) for expression in (*loose, PAUSING.pattern.pattern, *names)),
        *map(Pattern, _SELDOM),
        *map(Pattern, _SAVES),
    )


def is_save(index: int) -> bool:
    """Whether a pattern is one of lines about checkpoints."""
    return len(_seldom()) - len(_SAVES) <= index < len(_seldom())


def is_progress(index: int) -> bool:
    """Whether a pattern is one that most lines of progress have."""
    return index >= len(_seldom())
