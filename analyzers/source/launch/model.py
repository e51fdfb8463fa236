"""What a launch command says: the program, its arguments, and how many processes, GPUs and nodes it gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from analyzers.source.launch.words import Word

#: ``machine``: as many as the machine has; known only there.
Count = int | Literal["machine"] | None


@dataclass(frozen=True, slots=True)
class Setting:
    """A value that a launcher was given and where."""

    value: str
    file: str
    line: int


@dataclass(slots=True)
class Launch:
    """One program start.

    ``entry`` is a file in the tree (or None where it is not there), ``program`` the name as written, ``function`` what
    a console script calls in the entry, ``stdin`` the file (or here-document) that the program is fed.
    ``launchers`` are in order from the outside (``sbatch``, ``srun``,
    ``torchrun``). ``settings`` holds what launchers were told under the names ``nproc``, ``nnodes``, ``processes``,
    ``gpus_per_node``, ``gpus``, ``nodes``, ``tasks``, ``tasks_per_node``, ``config`` and so on;
    ``requested`` those of them that ask the scheduler for the job as a whole.
    """

    program: str = ""
    entry: str | None = None
    function: str = ""
    kind: Literal["python", "module", "notebook", "console", "none"] = "none"
    arguments: tuple[Word, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = ""
    stdin: str = ""
    launchers: list[str] = field(default_factory=list)
    settings: dict[str, Setting] = field(default_factory=dict)
    requested: dict[str, Setting] = field(default_factory=dict)
    search_paths: list[str] = field(default_factory=list)
    inexact: bool = False

    def number(self, name: str) -> int | None:
        """A launcher setting as a whole number, or None."""
        setting = self.settings.get(name)
        if setting is None:
            return None
        text = setting.value.rpartition(":")[2] if name.startswith("gpus") else setting.value
        try:
            value = int(text)
        except ValueError:
            return None
        return value if 0 <= value <= 1_000_000 else None
