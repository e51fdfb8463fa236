"""Launches generated programs for real, in a shell whose `python`, `torchrun` and so on only write down their words."""

from __future__ import annotations

import builtins
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

_RECORDED = ("python", "torchrun", "deepspeed", "accelerate", "papermill", "jupyter")
_SHIM = '#!/bin/bash\nprintf "%s\\0" "${0##*/}" "$@" > "$CAPTURE.argv"\nenv -0 > "$CAPTURE.env"\n'
_SRUN = '#!/bin/bash\nwhile [[ $1 == -* ]]; do [[ $1 == -N ]] && shift; shift; done\nexec "$@"\n'
_FOREIGN = (
    "torch", "torchvision", "torchaudio", "torch_geometric", "timm", "transformers", "datasets", "wandb", "tensorflow",
    "absl", "flax", "flaxmodels", "jax", "ml_collections", "optax", "tensorflow_datasets",
    "segmentation_models_pytorch", "tqdm", "matplotlib", "hydra", "omegaconf",
)  # fmt: skip


@dataclass
class Launched:
    """What a launch came to: the last command's words, its environment, what Slurm was asked for, where it ran."""

    argv: list[str]
    env: dict[str, str]
    folder: Path
    asked_gpus: int | None = None
    asked_nodes: int = 1

    @property
    def script(self) -> int:
        """Where the program stands in the words."""
        ends = (".py", ".ipynb")
        return next(i for i, word in enumerate(self.argv) if word.endswith(ends) and (self.folder / word).is_file())

    @property
    def ranks(self) -> int | None:
        """Processes on a node as the launcher is told, None where none says."""
        head = " ".join(self.argv[: self.script])
        found = re.search(r"(?:nproc_per_node|num_processes|num_gpus)[ =](\d+)", head)
        return int(found[1]) if found else None

    def option(self, name: str) -> str | None:
        """The last value of ``--name value`` or ``name=value`` behind the program."""
        words, value = self.argv[self.script + 1 :], None
        for at, word in enumerate(words):
            if word.lstrip("-").startswith(name + "="):
                value = word.split("=", 1)[1]
            elif word == "--" + name or word == "-" + name:
                value = words[at + 1]
        return value


@pytest.fixture
def launch(tmp_path: Path) -> Callable[[dict[str, str], str], Launched]:
    """Write a tree and launch a command in it."""
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in _RECORDED:
        (shims / name).write_text(_SHIM)
    (shims / "srun").write_text(_SRUN)
    for name in ("conda", "nvidia-smi", "module"):
        (shims / name).write_text("#!/bin/bash\n")
    (shims / "scontrol").write_text("#!/bin/bash\necho node1\n")
    for shim in shims.iterdir():
        shim.chmod(0o755)

    def run(tree: dict[str, str], command: str) -> Launched:
        folder = tmp_path / f"job{len(list(tmp_path.iterdir()))}"
        for name, text in tree.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        capture = folder / "captured"
        env = {
            "PATH": f"{shims}:/usr/bin:/bin",
            "HOME": str(folder),
            "CAPTURE": str(capture),
            "SLURM_SUBMIT_DIR": str(folder),
        }
        gpus, nodes, shell = _as_slurm(folder, command, env)
        done = subprocess.run(["bash", "-c", shell], cwd=folder, env=env, capture_output=True, text=True, timeout=30)
        argv_file = capture.with_suffix(".argv")
        assert argv_file.exists(), (command, done.stdout, done.stderr)
        seen = dict(line.split("=", 1) for line in capture.with_suffix(".env").read_text().split("\0") if "=" in line)
        return Launched(argv_file.read_text().split("\0")[:-1], seen, folder, gpus, nodes)

    return run


def _as_slurm(folder: Path, command: str, env: dict[str, str]) -> tuple[int | None, int, str]:
    """What Slurm would be asked for, and what it would run."""
    words = shlex.split(command)
    if "srun" in words:
        found = re.search(r"-N (\d+) --gres=gpu:(\d+)", command)
        assert found
        return int(found[1]) * int(found[2]), int(found[1]), command
    if words[0] != "sbatch":
        return None, 1, command
    at = next(i for i, word in enumerate(words[1:], 1) if not word.startswith("-"))
    text = (folder / words[at]).read_text()
    asked = "\n".join(re.findall(r"^#SBATCH (.*)$", text, re.M)) + "\n" + "\n".join(words[1:at])
    nodes = int(re.findall(r"(?:--nodes=|-N )(\d+)", asked)[-1])
    gpus = int(re.findall(r"(?:--gres=gpu:|--gpus-per-node=)(\d+)", asked)[-1])
    env["SLURM_JOB_NUM_NODES"] = str(nodes)
    env["SLURM_JOB_NODELIST"] = "node[1-9]"
    task = re.search(r"--array=(\d+)$", " ".join(words[1:at]))
    if task:
        env["SLURM_ARRAY_TASK_ID"] = task[1]
    return gpus * nodes, nodes, " ".join(["bash", *map(shlex.quote, words[at:])])


class Anything:
    """Stands for everything of a library that is not there; remembers how it was called."""

    def __init__(self, path: str = "?", *_: Any, **__: Any) -> None:
        self.__dict__["path"] = path if isinstance(path, str) else "?"
        self.__dict__["iterated"] = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        path = f"{self.path}.{name}"
        value = RUN.known.get(path) or Anything(path)
        self.__dict__[name] = value
        return value

    def __call__(self, *words: Any, **named: Any) -> Any:
        made = Anything(self.path + "()")
        RUN.calls.append((self.path, words, named, made))
        return made

    def __iter__(self) -> Iterator[Any]:
        self.__dict__["iterated"] += 1
        return iter([Anything("batch")] if self.path.endswith("DataLoader()") else [])

    def __len__(self) -> int:
        return 1

    def __format__(self, _: str) -> str:
        return "0"

    def __float__(self) -> float:
        return 1.0

    def __bool__(self) -> bool:
        return False

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def _same(self, *_: Any) -> Any:
        return self

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __getitem__ = (
        __pow__
    ) = _same
    __lt__ = __gt__ = lambda self, other: True


_WORLD: dict[str, Any] = {"torch.cuda.is_available": lambda: True, "tqdm.tqdm": lambda rows, **_: rows}


@dataclass
class Run:
    """One program as it ran: calls in order, and values that the world around it has."""

    calls: list[tuple[str, tuple[Any, ...], dict[str, Any], Anything]] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)

    def called(self, ending: str) -> list[tuple[tuple[Any, ...], dict[str, Any], Anything]]:
        """All calls of what ends so."""
        return [(words, named, made) for path, words, named, made in self.calls if path.endswith(ending)]


RUN = Run()


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, name: str, *_: Any) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in _FOREIGN else None

    def create_module(self, spec: ModuleSpec) -> Any:
        class Stub(ModuleType):
            def __getattr__(self, attribute: str) -> Any:
                if attribute.startswith("__"):
                    raise AttributeError(attribute)
                return getattr(Anything(spec.name), attribute)

        return Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return None


def run_program(launched: Launched, gpus: int, known: dict[str, Any] | None = None) -> Run:
    """Run the launched program with stand-ins for its libraries; nothing of it leaves the folder."""
    global RUN
    RUN = Run(known={**_WORLD, **(known or {})})
    program = launched.folder / launched.argv[launched.script]
    before = dict(sys.modules), list(sys.argv), dict(os.environ), Path.cwd(), list(sys.path)
    finder = _Finder()
    quiet = builtins.print
    for name in [name for name in sys.modules if name.split(".")[0] in _FOREIGN]:
        del sys.modules[name]
    try:
        sys.meta_path.insert(0, finder)
        sys.argv = [str(program), *launched.argv[launched.script + 1 :]]
        os.environ.clear()
        os.environ.update({**launched.env, "WORLD_SIZE": str(launched.ranks or 1), "RANK": "0", "LOCAL_RANK": "0"})
        os.chdir(launched.folder)
        builtins.print = lambda *_, **__: None
        RUN.known["globals"] = runpy.run_path(str(program), run_name="__main__")
    finally:
        builtins.print = quiet
        sys.meta_path.remove(finder)
        sys.modules.clear()
        sys.modules.update(before[0])
        sys.argv[:] = before[1]
        os.environ.clear()
        os.environ.update(before[2])
        os.chdir(before[3])
        sys.path[:] = before[4]
    return RUN


def config_of(launched: Launched, file: str) -> SimpleNamespace:
    """A JAX program's configuration with the launch's values in it."""
    known: dict[str, Any] = {"ml_collections": SimpleNamespace(ConfigDict=SimpleNamespace)}
    text = (launched.folder / file).read_text().replace("import ml_collections", "")
    exec(compile(text, file, "exec"), known)
    config = known["get_config"]()
    for word in launched.argv:
        if word.startswith("--config."):
            name, value = word.removeprefix("--config.").split("=")
            setattr(config, name, float(value) if "." in value or "e" in value else int(value))
    return config
