"""A short identity of a workload: the same for the same program and settings, whatever the paths and seeds."""

from __future__ import annotations

import ast
import hashlib
import posixpath
import re

from analyzers.source.reading import Reading

_VARYING = re.compile(r"seed|path|dir|output|out|log|name|port|addr|host|rank|id$|tag|wandb|project|run", re.IGNORECASE)


def fingerprint(reading: Reading) -> str:
    """A hash of the entry's code (without comments, long texts and paths) and of the arguments that matter."""
    digest = hashlib.blake2b(digest_size=12)
    entry = reading.launch.entry
    tree = reading.machine.parsed.get(entry) if entry is not None else None
    if tree is not None:
        digest.update(_shape(tree).encode())
    else:
        digest.update(posixpath.basename(reading.launch.program).encode("utf-8", "surrogatepass"))
    for word in _arguments(reading):
        digest.update(b"\0" + word.encode("utf-8", "surrogatepass"))
    for name in ("model", "dataset", "global_batch_size", "epochs", "max_steps", "num_gpus", "precision"):
        digest.update(f"\1{name}={reading.value(name)}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _shape(tree: ast.Module) -> str:
    try:
        names = [type(node).__name__ + _label(node) for node in ast.walk(tree)]
    except RecursionError:
        return ""
    return " ".join(names[:200_000])


def _label(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float | bool):
        return ""
    return ""


def _arguments(reading: Reading) -> list[str]:
    """Launch arguments without those that name places, seeds and runs."""
    kept: list[str] = []
    words = [word.text for word in reading.launch.arguments]
    i = 0
    while i < len(words):
        name, equals, _ = words[i].partition("=")
        has_value = not equals and i + 1 < len(words) and not words[i + 1].startswith("-")
        group = words[i : i + 2] if words[i].startswith("-") and has_value else words[i : i + 1]
        i += len(group)
        if _VARYING.search(name) and words[i - len(group)].startswith("-"):
            continue
        kept.append(" ".join(posixpath.basename(w) if "/" in w else w for w in group))
    return sorted(kept)
