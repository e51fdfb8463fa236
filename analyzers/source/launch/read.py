"""Reading a launch command down to the program it starts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from analyzers.source.files import Tree, normal
from analyzers.source.knowledge.frameworks import known_command
from analyzers.source.launch.entry_points import find_entry_point
from analyzers.source.launch.launchers import (
    LAUNCHERS,
    apply_directive,
    is_python,
    python_options,
    slurm_options,
)
from analyzers.source.launch.model import Launch, Setting
from analyzers.source.launch.script import Shell, directives
from analyzers.source.launch.words import UNKNOWN, Variables, Word

#: Modules that are launchers when run with ``python -m``.
_LAUNCHER_MODULES = {
    "torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
    "torch.distributed.elastic.run": "torchrun",
    "accelerate.commands.launch": "accelerate", "deepspeed.launcher.runner": "deepspeed", "deepspeed": "deepspeed",
    "accelerate.commands.accelerate_cli": "accelerate",
}  # fmt: skip
COMMAND_BYTES_MAX = 200_000
_PEEL_MAX = 20
#: Scripts that call each other multiply; no honest launch needs this many.
SCRIPTS_MAX = 40


def read_launch(command: str, tree: Tree, env: Mapping[str, str], cwd: str = "") -> Launch:
    """The program that ``command`` starts. Warnings go to ``tree``; never raises for what the text holds."""
    variables: Variables = dict(env)
    shell = Shell(tree, variables, exported=set(env), cwd=cwd)
    shell.set_positional([])
    if len(command) > COMMAND_BYTES_MAX:
        tree.warn("the launch command is too long to read")
        command = command[:COMMAND_BYTES_MAX]
    shell.run(command.replace("\r\n", "\n"), "launch")
    launches = [
        launch
        for started in shell.started
        for launch in _starts(
            list(started.words),
            Launch(env=dict(started.env), cwd=started.cwd, stdin=started.stdin),
            tree,
            shell.variables,
            0,
        )
    ]
    if all(launch.kind == "none" for launch in launches):
        if not tree.off:
            tree.warn("the launch command starts no program that can be read")
        return next((launch for launch in launches if launch.requested), Launch())
    if all(launch.kind == "console" and launch.entry is None and not _is_known(launch) for launch in launches):
        tree.warn(f"{_shown(launches[-1].program)} is not a program that can be read; only the command line is")
    best = max(range(len(launches)), key=lambda i: (_weight(launches[i]), i))
    if sum(_weight(launch) >= 2 for launch in launches) > 1:
        tree.warn(f"the command starts {len(launches)} programs; {launches[best].program} is read as the job")
    return launches[best]


def _weight(launch: Launch) -> int:
    if launch.kind == "none":
        return 0
    distributed = any(
        name in ("torchrun", "deepspeed", "accelerate", "mpirun", "horovodrun") for name in launch.launchers
    )
    return 1 + (launch.entry is not None) + 2 * distributed


def _starts(words: list[Word], launch: Launch, tree: Tree, variables: Variables, depth: int) -> list[Launch]:
    """Peel launchers until a program remains; a script fans out into what it starts."""
    for _ in range(_PEEL_MAX):
        if not words or depth > 8:
            return []
        base = posixpath.basename(words[0].text)
        rest = words[1:]
        if base == "sbatch":
            launch.launchers.append("sbatch")
            return _batch_script(slurm_options(rest, launch), launch, tree, variables, depth)
        if base in ("bash", "sh", "zsh", "ksh", "dash") or base.endswith((".sh", ".slurm", ".sbatch")):
            return _shell(
                words if base.endswith((".sh", ".slurm", ".sbatch")) else rest, launch, tree, variables, depth
            )
        if base in ("jupyter", "jupyter-nbconvert", "papermill"):
            return _notebook(words, launch, tree)
        if is_python(base):
            rest = python_options(rest)
            if rest and rest[0].text == "-m" and len(rest) > 1 and rest[1].text in _LAUNCHER_MODULES:
                words = [Word(_LAUNCHER_MODULES[rest[1].text]), *rest[2:]]
                continue
            return [_python(rest, launch, tree)]
        if base in LAUNCHERS:
            words = LAUNCHERS[base](rest, launch)
            if base in ("srun", "salloc") and not _is_asked(launch):
                launch.requested = dict(launch.settings)
            continue
        if base.endswith(".py"):
            return [_python(words, launch, tree)]
        if _is_shell_script(words[0], launch, tree):
            return _shell(words, launch, tree, variables, depth)
        launch.program, launch.kind, launch.arguments = base, "console", tuple(rest)
        if not _is_known(launch):
            find_entry_point(base, launch, tree)
        return [launch]
    return []


def _is_known(launch: Launch) -> bool:
    """Whether a framework is described to bring this program: then its description is what is gone by."""
    return known_command(launch.program, [word.text for word in launch.arguments]) is not None


def _is_asked(launch: Launch) -> bool:
    """Whether the scheduler was asked for the job further out, so that what follows only uses what it got."""
    return bool(launch.requested) or "sbatch" in launch.launchers


def _is_shell_script(word: Word, launch: Launch, tree: Tree) -> bool:
    path = locate(word.text, launch.cwd, tree)
    text = tree.read(path) if path is not None else None
    return text is not None and re.match(r"#!.*\b(ba|z|k|da)?sh\b", text) is not None


def locate(written: str, cwd: str, tree: Tree) -> str | None:
    """A written path as a file of the tree: as it stands, else the same name found where it can only be one file."""
    if UNKNOWN not in written and not written.startswith("/"):
        path = normal(posixpath.join(cwd, written))
        if tree.is_file(path):
            return path
        if tree.is_file(normal(written)):
            return normal(written)
        if path.startswith("../") or "://" in written:
            return None  # another file for certain, whatever its name
    # Written for another place (/opt/project/train.py, $CODE/train.py): try ever shorter ends of the path.
    parts = [part for part in written.split("/") if part not in ("", ".", "..")]
    parts = parts[max((i for i, p in enumerate(parts) if UNKNOWN in p), default=-1) + 1 :]
    for start in range(len(parts)):
        for folder in dict.fromkeys((cwd, "")):
            path = normal(posixpath.join(folder, *parts[start:]))
            if tree.is_file(path):
                return path
    if parts:
        found = tree.find(parts[-1])
        if len(found) == 1:
            return found[0]
    return None


def _or_fed(words: list[Word], launch: Launch) -> list[Word]:
    """A program's words with what it is fed in the place of a script that is not named."""
    if launch.stdin and (not words or words[0].text in ("-", "/dev/stdin")):
        return [Word(launch.stdin), *words[1:]]
    return words


def _python(words: list[Word], launch: Launch, tree: Tree) -> Launch:
    words = _or_fed(words, launch)
    if not words or words[0].text == "-c":
        return launch
    if words[0].text == "-m":
        if len(words) < 2:
            return launch
        name = words[1].text
        launch.program, launch.kind, launch.arguments = name, "module", tuple(words[2:])
        stem = name.replace(".", "/")
        for path in (f"{stem}/__main__.py", f"{stem}.py", f"src/{stem}/__main__.py", f"src/{stem}.py"):
            if tree.is_file(normal(posixpath.join(launch.cwd, path))):
                launch.entry = normal(posixpath.join(launch.cwd, path))
                launch.search_paths = [launch.cwd, normal(posixpath.join(launch.cwd, "src"))]
                break
        _look_into(launch, tree)
        return launch
    written = words[0].text
    launch.program, launch.kind, launch.arguments = written, "python", tuple(words[1:])
    launch.entry = locate(written, launch.cwd, tree)
    if launch.entry is None:
        similar = _similar_file(written, launch.cwd, tree)
        if similar is not None:
            launch.entry, launch.inexact = similar, True
            tree.warn(f"{_shown(written)} is not in the work dir; {similar} is read in its place")
        else:
            tree.lacks(_shown(written), "only the launch command is read")
    elif launch.entry not in (normal(written), normal(posixpath.join(launch.cwd, written))):
        tree.warn(f"{_shown(written)} is taken to be {launch.entry}")
    if launch.entry is not None and launch.entry.endswith(".ipynb"):
        launch.kind = "notebook"
    _look_into(launch, tree)
    return launch


def _look_into(launch: Launch, tree: Tree) -> None:
    """Keep the entry only where it can and may be read; with it closed the command line is all there is."""
    if launch.entry is None:
        return
    # A program of which there are only leading comments was not read: it must not be judged as an empty one.
    text = None if tree.headers_only and launch.entry in tree.scripts else tree.read(launch.entry)
    if text is None:
        launch.entry = None
    else:
        tree.obey(text, launch.entry)


def _similar_file(written: str, cwd: str, tree: Tree) -> str | None:
    """A file whose name is the written name less its last parts (``multinode_torchrun.py`` -> ``multinode.py``)."""
    stem, dot, extension = posixpath.basename(written).rpartition(".")
    parts = stem.split("_")
    for count in range(len(parts) - 1, 0, -1):
        path = normal(posixpath.join(cwd, "_".join(parts[:count]) + dot + extension))
        if tree.is_file(path):
            return path
    return None


def _shown(text: str) -> str:
    return text.replace(UNKNOWN, "?")


def _notebook(words: list[Word], launch: Launch, tree: Tree) -> list[Launch]:
    for word in words[1:]:
        if word.text.endswith(".ipynb"):
            launch.program, launch.kind = word.text, "notebook"
            launch.entry = locate(word.text, launch.cwd, tree)
            if launch.entry is None:
                tree.lacks(_shown(word.text), "only the launch command is read")
            _look_into(launch, tree)
            return [launch]
    return []


def _shell(words: list[Word], launch: Launch, tree: Tree, variables: Variables, depth: int) -> list[Launch]:
    """``bash script args`` or ``bash -c text``."""
    while words and words[0].text.startswith("-") and words[0].text != "-":
        option = words[0].text
        words = words[1:]
        if option.startswith("-") and not option.startswith("--") and "c" in option and words:
            return _follow(words[0].text, words[0].file, [w.text for w in words[2:]], launch, tree, variables, depth)
        if option in ("-o", "-O"):
            words = words[1:]
        elif "s" in option and not option.startswith("--") and launch.stdin:
            words = [Word(launch.stdin), *words]
            break
    words = _or_fed(words, launch)
    if not words:
        return []
    path = locate(words[0].text, launch.cwd, tree)
    text = tree.read(path) if path is not None else None
    if path is None or text is None:
        if path is None:
            tree.lacks(_shown(words[0].text), "what it starts is unknown")
        return []
    tree.scripts[path] = text
    if not _is_asked(launch):
        # Run by hand the lines are comments, but they say what the job is meant to get.
        written = Launch()
        for directive, line in directives(text):
            apply_directive(directive, path, line, written)
        launch.requested = written.settings
    started = _follow(text, path, [w.text for w in words[1:]], launch, tree, variables, depth)
    return started or ([launch] if launch.requested else [])


def _batch_script(words: list[Word], launch: Launch, tree: Tree, variables: Variables, depth: int) -> list[Launch]:
    launch.requested = dict(launch.settings)
    wrap = launch.settings.get("wrap")
    if not words and wrap is not None:
        return _follow(wrap.value, "launch", [], launch, tree, variables, depth)
    words = _or_fed(words, launch)
    if not words:
        return [launch]
    path = locate(words[0].text, launch.cwd, tree)
    text = tree.read(path) if path is not None else None
    if path is None or text is None:
        if path is None:
            tree.lacks(_shown(words[0].text), "what it starts is unknown")
        return [launch]
    tree.scripts[path] = text
    given = dict(launch.settings)  # the command line beats the script's directives
    for directive, line in directives(text):
        apply_directive(directive, path, line, launch)
    launch.settings.update(given)
    launch.requested = dict(launch.settings)
    started = _follow(
        text, path, [w.text for w in words[1:]], launch, tree, {**variables, **slurm_variables(launch)}, depth
    )
    return started or [launch]


def slurm_variables(launch: Launch) -> dict[str, str]:
    """The variables that Slurm sets from the request, as far as they follow from it."""
    nodes = launch.number("nodes") or 1
    per_node = launch.number("tasks_per_node")
    tasks = launch.number("tasks") or (per_node * nodes if per_node else None)
    gpus = launch.number("gpus_per_node")
    values: dict[str, int | None] = {
        "SLURM_NNODES": nodes, "SLURM_JOB_NUM_NODES": nodes, "SLURM_NTASKS": tasks, "SLURM_NPROCS": tasks,
        "SLURM_NTASKS_PER_NODE": per_node, "SLURM_GPUS_ON_NODE": gpus, "SLURM_GPUS_PER_NODE": gpus, "SLURM_PROCID": 0,
        "SLURM_NODEID": 0, "SLURM_LOCALID": 0,
    }  # fmt: skip
    return {name: str(value) for name, value in values.items() if value is not None}


def _follow(
    text: str, file: str, arguments: list[str], launch: Launch, tree: Tree, variables: Variables, depth: int
) -> list[Launch]:
    tree.scripts_followed += 1
    if tree.scripts_followed > SCRIPTS_MAX:
        tree.warn("the command starts more scripts than are read for one job")
        return []
    tree.obey(text, file)
    shell = Shell(tree, {**variables, **launch.env}, exported=set(launch.env), cwd=launch.cwd, file=file, depth=depth)
    shell.set_positional(arguments)
    if file != "launch":
        shell.variables["0"] = "./" + posixpath.relpath(file, launch.cwd or ".")
    chdir = launch.settings.get("chdir")
    if chdir is not None and tree.is_dir(normal(posixpath.join(launch.cwd, chdir.value))):
        shell.cwd = normal(posixpath.join(launch.cwd, chdir.value))
    shell.run(text, file)
    found: list[Launch] = []
    for started in shell.started:
        inner = Launch(
            env={**launch.env, **started.env}, cwd=started.cwd, stdin=started.stdin, launchers=list(launch.launchers),
            settings=dict(launch.settings), requested=dict(launch.requested),
        )  # fmt: skip
        found.extend(_starts(list(started.words), inner, tree, shell.variables, depth + 1))
    return found


def with_request(launch: Launch, gpus: int | None, nodes: int | None) -> Launch:
    """Add what the submission's own request says where the command is silent."""
    if nodes is not None and "nodes" not in launch.settings:
        launch.settings["nodes"] = Setting(str(nodes), "launch", 1)
    if gpus is not None and not {"gpus", "gpus_per_node"} & set(launch.settings):
        launch.settings["gpus"] = Setting(str(gpus), "launch", 1)
    return launch
