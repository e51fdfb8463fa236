"""Console scripts: the function that a command stands for, as the project's packaging files declare it."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from analyzers.source.files import Tree, normal
from analyzers.source.launch.model import Launch

_IN_SETUP = r"""["']\s*{}\s*=\s*([\w.]+)\s*:\s*([\w.]+)\s*["']"""
_IN_CONFIGURATION = r"^\s*{}\s*=\s*([\w.]+)\s*:\s*([\w.]+)\s*$"


def find_entry_point(command: str, launch: Launch, tree: Tree) -> bool:
    """Set a launch's entry to the module and function behind ``command``; whether the project declares one.

    A package of that name that can be run (``__main__.py``) counts as one too.
    """
    tops = [tree.above] if tree.above else [""]
    for top in tops:
        declared = _declared(command, top, tree)
        if declared is None:
            continue
        module, function = declared
        stem = module.replace(".", "/")
        for folder in _package_folders(top, tree):
            for path in (f"{folder}/{stem}.py", f"{folder}/{stem}/__init__.py"):
                if tree.is_file(normal(path)):
                    launch.entry, launch.function = normal(path), function
                    launch.search_paths = [normal(folder)]
                    return True
    if not re.fullmatch(r"[A-Za-z_][\w-]*", command):
        return False
    stem = command.replace("-", "_")
    for top in tops:
        for folder in _package_folders(top, tree):
            path = normal(f"{folder}/{stem}/__main__.py")
            if tree.is_file(path):
                launch.entry, launch.search_paths = path, [normal(folder)]
                return True
    return False


def _package_folders(top: str, tree: Tree) -> list[str]:
    base = top or "."
    return [base, f"{base}/src", *([f"{base}/python"] if tree.is_dir(normal(f"{base}/python")) else [])]


def _declared(command: str, top: str, tree: Tree) -> tuple[str, str] | None:
    """``module:function`` from pyproject.toml, setup.cfg or setup.py."""
    base = top or "."
    text = tree.read(normal(f"{base}/pyproject.toml")) if tree.is_file(normal(f"{base}/pyproject.toml")) else None
    if text is not None and command in text:
        found = _in_pyproject(command, text)
        if found is not None:
            return found
    for name, pattern in (("setup.cfg", _IN_CONFIGURATION), ("setup.py", _IN_SETUP)):
        path = normal(f"{base}/{name}")
        text = tree.read(path) if tree.is_file(path) else None
        match = re.search(pattern.format(re.escape(command)), text, re.MULTILINE) if text else None
        if match:
            return match[1], match[2]
    return None


def _in_pyproject(command: str, text: str) -> tuple[str, str] | None:
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    for keys in (("project", "scripts"), ("tool", "poetry", "scripts"), ("tool", "pdm", "scripts")):
        table: Any = document
        for key in keys:
            table = table.get(key) if isinstance(table, dict) else None
        written = table.get(command) if isinstance(table, dict) else None
        if isinstance(written, str):
            module, colon, function = written.partition(":")
            if colon:
                return module.strip(), function.strip()
    return None
