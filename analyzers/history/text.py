"""What is compared of job names and commands: the words that stay the same from run to run."""

from __future__ import annotations

import re
from functools import lru_cache

_WORD = re.compile(r"[A-Za-z]{2,}[A-Za-z0-9]*|[A-Za-z]+\d+")
_HEX = re.compile(r"(?<![0-9a-z])(?=[0-9a-f]*\d)[0-9a-f]{6,}(?![0-9a-z])")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_SCRIPT = re.compile(r"(?<![\w.-])[\w.-]+\.(?:py|sh|sbatch|ipynb|jl|R|lua|yaml|yml|json)\b")
#: Words of launchers and flags that almost every command has; they tell jobs apart from nothing.
_COMMON = frozenset({
    "python", "python3", "torchrun", "srun", "sbatch", "bash", "sh", "env", "mpirun", "mpiexec", "accelerate",
    "launch", "deepspeed", "horovodrun", "module", "run", "nproc", "per", "node", "nnodes", "nproc_per_node",
    "rank", "master", "addr", "port", "cuda", "visible", "devices", "export", "cd", "exec", "conda", "activate",
    "home", "data", "mnt", "scratch", "usr", "bin", "opt", "py", "true", "false",
})  # fmt: skip
_GRAM = 3
_CACHE = 65_536


@lru_cache(_CACHE)
def stem(text: str) -> str:
    """The text without what changes from run to run: numbers, hashes, case and separators.

    >>> stem("train-2024-05-01-a3f9c1d") == stem("train_2024_05_02_77be01c")
    True
    """
    without_hashes = _HEX.sub(" ", text.lower())
    return " ".join(re.sub(r"[\W_]+", " ", _NUMBER.sub(" ", without_hashes)).split())


@lru_cache(_CACHE)
def grams(text: str) -> frozenset[str]:
    """Character trigrams of the stem, with word boundaries."""
    padded = f" {stem(text)} "
    return frozenset(padded[i : i + _GRAM] for i in range(max(0, len(padded) - _GRAM + 1)))


@lru_cache(_CACHE)
def words(text: str) -> frozenset[str]:
    """Telling words of a command or name: models, datasets, scripts; not launchers, not numbers."""
    return frozenset(word.lower() for word in _WORD.findall(text)) - _COMMON


@lru_cache(_CACHE)
def script(command: str) -> str:
    """The script a command runs, without its folder; empty when there is none."""
    match = _SCRIPT.search(command)
    return match[0].lower() if match else ""


def overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Jaccard similarity of two sets, 0..1; 0 for empty ones."""
    if not a or not b:
        return 0.0
    common = len(a & b)
    return common / (len(a) + len(b) - common)
