"""Draws docs/scheduling-cycle.svg, ``python -m benchmarks.cycle_picture``. A test compares it with the scheduler."""

from __future__ import annotations

from html import escape
from pathlib import Path

PATH = Path(__file__).parents[1] / "docs" / "scheduling-cycle.svg"

#: Name of the action, what it does in a few words.
STEPS = (
    ("age", "who has waited too long", "goes before all others"),
    ("evict", "backfill that overstays", "leaves, as it was told"),
    ("mend", "gangs get back first", "what a fault took"),
    ("plan", "reservations follow", "what has happened"),
    ("admit", "heads of the queues start,", "blocked ones get a plan"),
    ("give_back", "gangs that grew make way", "for a blocked head"),
    ("preempt", "higher classes and owners", "take from others"),
    ("plan", "plans in step", "with what has started"),
    ("fill", "later jobs that delay", "no plan: backfill"),
    ("stand_by", "who waits for long: a plan", "for those behind, then first"),
    ("settle", "starts promised for now,", "promises are told"),
    ("grow", "elastic gangs take", "what nobody can use"),
)

BEFORE = (
    "submitted, ended, withdrawn",
    "node or GPU lost, back, suspected",
    "hints, tenants changed",
    "time: a plan is due",
)
AFTER = ("started", "evicted: waits again", "resized: told its new size", "decision and explanation of each")

_STYLE = (
    ".bg{fill:#fff}.step{fill:#e8f0fe;stroke:#3b6fd4;stroke-width:1.2}.side{fill:#f6f7f9;stroke:#8a94a6}"
    ".tx{fill:none;stroke:#3b6fd4;stroke-dasharray:6 4}.n{font-weight:600;font-size:14px;fill:#1b2330}.d{fill:#4a5568}"
    ".a{stroke:#8a94a6;stroke-width:1.6;fill:none;marker-end:url(#h)}"
    "@media (prefers-color-scheme: dark){.bg{fill:#12161d}.step{fill:#1b2b4a;stroke:#6b9bff}"
    ".side{fill:#1c222c;stroke:#5d6879}.tx{stroke:#6b9bff}.n{fill:#e9edf4}.d{fill:#aab4c3}}"
)
_WIDE, _HIGH, _GAP, _LEFT, _TOP, _COLUMNS = 176, 64, 22, 46, 168, 6


def _box(kind: str, x: int, y: int, wide: int, high: int) -> str:
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{wide}" height="{high}" rx="7"/>'


def _text(kind: str, x: int, y: int, words: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>'


def _step(number: int, name: str, lines: tuple[str, ...]) -> list[str]:
    row, column = divmod(number, _COLUMNS)
    x, y = _LEFT + column * (_WIDE + _GAP), _TOP + row * (_HIGH + 40)
    drawn = [_box("step", x, y, _WIDE, _HIGH), _text("n", x + 10, y + 21, f"{number + 1}  {name}")]
    drawn += [_text("d", x + 10, y + 39 + 16 * i, line) for i, line in enumerate(lines)]
    if column:
        drawn.append(f'<path class="a" d="M{x - _GAP} {y + _HIGH // 2}H{x - 2}"/>')
    elif row:
        last = _LEFT + (_COLUMNS - 1) * (_WIDE + _GAP) + _WIDE // 2
        drawn.append(f'<path class="a" d="M{last} {y - 40}v20H{x + _WIDE // 2}v18"/>')
    return drawn


def picture() -> str:
    """The picture as SVG."""
    rows = -(-len(STEPS) // _COLUMNS)
    inner = _COLUMNS * (_WIDE + _GAP) - _GAP
    bottom = _TOP + rows * (_HIGH + 40)
    wide, high = 2 * _LEFT + inner, bottom + 128
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" aria-labelledby="t" '
        'font-family="system-ui, sans-serif" font-size="12">',
        '<title id="t">A scheduling cycle: events come in, one transaction of small steps, effects go out</title>',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="h" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0 10 5 0 10z" fill="#8a94a6"/></marker></defs>',
        f'<rect class="bg" width="{wide}" height="{high}"/>',
        _box("side", _LEFT, 14, inner, 82),
        _text("n", _LEFT + 14, 36, "events, as data"),
        _text("d", _LEFT + inner // 2 + 70, 36, "each is a line of the journal before it takes effect;"),
        _text("d", _LEFT + inner // 2 + 70, 54, "the journal, lived through again, gives the same state"),
        *(_text("d", _LEFT + 14 + 226 * (i // 2), 58 + 20 * (i % 2), words) for i, words in enumerate(BEFORE)),
        f'<path class="a" d="M{wide // 2} 96V128"/>',
        _box("tx", _LEFT - 22, 130, inner + 44, bottom - 142),
        _text("n", _LEFT - 6, 152, "one cycle = one transaction: kept whole, or discarded without a trace"),
    ]
    for number, (name, *lines) in enumerate(STEPS):
        drawn += _step(number, name, tuple(lines))
    drawn += [
        f'<path class="a" d="M{wide // 2} {bottom - 12}V{bottom + 22}"/>',
        _box("side", _LEFT, bottom + 24, inner, 82),
        _text("n", _LEFT + 14, bottom + 46, "effects, for whoever runs the jobs"),
        *(_text("d", _LEFT + 14 + 226 * (i // 2), bottom + 68 + 20 * (i % 2), words) for i, words in enumerate(AFTER)),
        _text("d", _LEFT + inner // 2 + 70, bottom + 46, "and when the next cycle is due if nothing happens (wake_s)"),
        "</svg>\n",
    ]
    return "\n".join(drawn)


if __name__ == "__main__":
    PATH.write_text(picture(), encoding="utf-8")
