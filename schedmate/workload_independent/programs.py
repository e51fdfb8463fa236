"""From a program to the files of its tree. Nothing of a job's truth comes in here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from schedmate.workload_independent.settings import Program

_LEFTOVERS = {
    "lies": {"README.md": "common/README.md.j2"},
    "leftovers": {"configs/old/first_try.yaml": "common/old.yaml.j2"},
    "dead": {"scratch_march.py": "common/scratch.py.j2"},
}
#: Says in every tree what it is, beside the program and not in it.
_LABEL = {".synthetic": "common/synthetic.j2"}


@lru_cache(maxsize=1)
def _environment() -> Environment:
    # `@{ }` and lines that begin with `@@`: nothing in Python, shell, YAML or Make looks like them.
    made = Environment(
        loader=PackageLoader("schedmate.workload_independent", "templates"),
        variable_start_string="@{",
        variable_end_string="}",
        block_start_string="@%",
        block_end_string="%@",
        comment_start_string="@#",
        comment_end_string="#@",
        line_statement_prefix="@@",
        trim_blocks=False,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        auto_reload=False,
        autoescape=False,
    )
    made.filters["dashed"] = lambda word: word.replace("_", "-")
    made.filters["slug"] = lambda word: word.replace("-", "_")
    return made


def tree_of(program: Program) -> dict[str, str]:
    """The files of a program's tree with what lies around in it, text by relative path."""
    quirks = program.context["q"]
    templates = dict(program.files) | _LABEL
    for quirk, files in _LEFTOVERS.items():
        if quirks[quirk]:
            templates |= files
    made = {}
    for path, template in templates.items():
        text = _environment().get_template(template).render(program.context)
        made[path] = _notebook(text) if path.endswith(".ipynb") else text.lstrip("\n")
    return made


def _notebook(text: str) -> str:
    """A notebook from cells that begin with ``# %%``, in the format of nbformat 4.5."""
    cells = []
    for number, part in enumerate(text.lstrip().removeprefix("# %%").split("\n# %%")):
        head, _, body = part.partition("\n")
        lines = body.strip("\n").splitlines(keepends=True)
        cell: dict[str, object] = {"id": f"cell-{number}", "metadata": {}}
        if "markdown" in head:
            cell |= {"cell_type": "markdown", "source": [line.removeprefix("# ") for line in lines]}
        else:
            cell |= {"cell_type": "code", "execution_count": None, "outputs": [], "source": lines}
            if "parameters" in head:
                cell["metadata"] = {"tags": ["parameters"]}
        cells.append(cell)
    kernel: Mapping[str, object] = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return json.dumps({"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}, indent=1)
