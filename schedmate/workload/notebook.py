"""Notebooks: a template of cells as text, turned into the JSON that Jupyter and papermill read (nbformat 4)."""

from __future__ import annotations

import json
import re
from typing import Any

_CELL = re.compile(r"^#%%[ \t]*(\w*)[ \t]*\n", re.MULTILINE)


def notebook_json(text: str) -> str:
    """A notebook from cells that begin with ``#%%``, ``#%% markdown`` or ``#%% parameters`` on a line of its own."""
    parts = _CELL.split(text)
    cells = [_cell(kind, body.strip("\n")) for kind, body in zip(parts[1::2], parts[2::2], strict=True)]
    body = {
        "cells": cells,
        "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(body, indent=1) + "\n"


def _cell(kind: str, body: str) -> dict[str, Any]:
    source = body.splitlines(keepends=True)
    if kind == "markdown":
        return {"cell_type": "markdown", "metadata": {}, "source": source}
    tags = {"tags": ["parameters"]} if kind == "parameters" else {}
    return {"cell_type": "code", "execution_count": None, "metadata": tags, "outputs": [], "source": source}
