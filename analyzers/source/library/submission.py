"""Programs that send themselves to a cluster: what they ask for, and the function that runs there."""

from __future__ import annotations

from analyzers.source.launch.model import Setting
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import NONE, Const, Ext, Obj, Val

_EXECUTORS = ("submitit.AutoExecutor", "submitit.SlurmExecutor", "submitit.LocalExecutor")
_REQUEST = {
    "nodes": "nodes", "gpus_per_node": "gpus_per_node", "tasks_per_node": "tasks_per_node",
    "slurm_ntasks_per_node": "tasks_per_node", "ntasks_per_node": "tasks_per_node", "num_gpus": "gpus_per_node",
    "slurm_gpus_per_node": "gpus_per_node", "slurm_nodes": "nodes",
}  # fmt: skip


@models(*(f"{path}().update_parameters" for path in _EXECUTORS))
def _request(a: Arguments) -> Val | None:
    settings = a.machine.launch.settings
    for name, value in a.kwargs.items():
        if name in _REQUEST and isinstance(value, Const) and isinstance(value.value, int):
            settings[_REQUEST[name]] = Setting(str(value.value), value.origin.file, value.origin.line)
    nodes, tasks = a.machine.launch.number("nodes"), a.machine.launch.number("tasks_per_node")
    a.machine.processes = (nodes or 1) * tasks if tasks is not None else None
    a.machine.launch.launchers.append("submitit")
    return NONE


@models(*(f"{path}().submit" for path in _EXECUTORS))
def _submit(a: Arguments) -> Val | None:
    if a.args:
        a.machine.call(a.args[0], list(a.args[1:]), dict(a.kwargs), a.origin)
    return Obj(Ext("submitit.Job"), {}, a.origin)
