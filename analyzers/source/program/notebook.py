"""Notebooks: the code cells as one source text, with the line of the file that each source line stands on."""

from __future__ import annotations

import json

#: Rows that are looked for in vain before the lines are given up, and how far in characters one is looked for.
_MISSES_MAX = 200
_SEARCH_MAX = 400_000


def notebook_source(text: str) -> tuple[str, list[int]]:
    """Code of a ``.ipynb`` file and, for each of its lines, the 1-based line in the file. Empty where unreadable."""
    try:
        document = json.loads(text)
        cells = document.get("cells") or [c for s in document.get("worksheets", []) for c in s.get("cells", [])]
    except (ValueError, RecursionError, AttributeError, TypeError):
        return "", []
    at = position = misses = 0
    source: list[str] = []
    lines: list[int] = []
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        body = cell.get("source", cell.get("input", ""))
        joined = "".join(map(str, body)) if isinstance(body, list) else str(body)
        if joined.lstrip().startswith("%%"):
            continue
        for row in joined.split("\n"):
            needle = json.dumps(row, ensure_ascii=False)[1:-1]
            # Cells stand in the file in their order, so that each row is looked for from where the last one was.
            if row.strip() and misses < _MISSES_MAX:
                found = text.find(needle, position, position + _SEARCH_MAX)
                misses += found < 0
                if found >= 0:
                    at += text.count("\n", position, found)
                    position = found
            # Magics and shell escapes are not Python.
            stripped = row.lstrip()
            magic = stripped.startswith(("%", "!", "?")) or stripped.endswith("?")
            source.append(row[: len(row) - len(stripped)] + "pass" if magic else row)
            lines.append(at + 1)
    return "\n".join(source), lines
