"""Walking the program that a launch command starts."""

from __future__ import annotations

import posixpath

from analyzers.source import library as _library  # noqa: F401  (registers the models)
from analyzers.source.files import Tree, normal
from analyzers.source.launch.model import Launch
from analyzers.source.library import system
from analyzers.source.limits import TOO_LONG, BudgetExceededError
from analyzers.source.program.calls import invoke
from analyzers.source.program.machine import Machine
from analyzers.source.program.statements import run_module
from analyzers.source.program.values import Origin


def machine_for(tree: Tree, launch: Launch, processes: int | None, devices_per_process: int | None) -> Machine:
    """A machine ready to walk the launched program.

    ``processes`` is the size of the job's world where the launch command fixes it; ``devices_per_process`` how many
    GPUs one process sees, where that is known.
    """
    machine = Machine(tree, launch, processes=processes, devices_per_process=devices_per_process)
    machine.invoke = invoke
    machine.run_module = run_module
    folder = posixpath.dirname(launch.entry or "")
    python_path = [p for p in launch.env.get("PYTHONPATH", "").split(":") if p and not p.startswith("/")]
    candidates = [folder, *launch.search_paths, launch.cwd, *map(normal, python_path), "", "src"]
    if tree.above:
        candidates += [tree.above, f"{tree.above}/src"]
    machine.search_paths = list(dict.fromkeys(candidates))
    system.prepare(machine)
    return machine


def _start(machine: Machine, entry: str) -> None:
    name = entry.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = machine.load(entry, name)
    if module is None:
        machine.record.complete = False
    elif machine.launch.function:
        function = module.names.get(machine.launch.function.partition(".")[0])
        if function is None:
            machine.record.complete = False
        else:
            invoke(machine, function, [], {}, Origin("launch", 1))


def walk(machine: Machine) -> None:
    """Walk the launched program from its first line; the record in the machine says what was met."""
    entry = machine.launch.entry
    if entry is None:
        machine.record.complete = False
        return
    try:
        _start(machine, entry)
    except BudgetExceededError:
        machine.tree.warn(TOO_LONG)
        machine.record.complete = False
    except RecursionError:
        machine.tree.warn("the program calls itself too deeply to be read to its end")
        machine.record.complete = False
    if machine.launch.inexact:
        machine.record.complete = False
