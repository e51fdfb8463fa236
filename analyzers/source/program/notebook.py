"""Notebooks: the code cells as one source text, with the line of the file that each source line stands on."""

from __future__ import annotations

import json


def notebook_source(text: str) -> tuple[str, list[int]]:
    """Code of a ``.ipynb`` file and, for each of its lines, the 1-based line in the file. Empty where unreadable."""
    try:
        document = json.loads(text)
        cells = document.get("cells") or [c for s in document.get("worksheets", []) for c in s.get("cells", [])]
    except (ValueError, RecursionError, AttributeError, TypeError):
        return "", []
    rows = text.splitlines()
    at = 0
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
            if row.strip():
                found = next((i for i in range(at, min(at + 5000, len(rows))) if needle in rows[i]), None)
                at = found if found is not None else at
            # Magics and shell escapes are not Python.
            stripped = row.lstrip()
            magic = stripped.startswith(("%", "!", "?")) or stripped.endswith("?")
            source.append(row[: len(row) - len(stripped)] + "pass" if magic else row)
            lines.append(at + 1)
    return "\n".join(source), lines
