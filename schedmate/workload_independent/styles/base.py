"""What every style shares: the words of a launch, what fills its templates, and what is true of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.settings import Program, Project, Setting

#: What people try of a learning rate: these times the usual one.
RATE_FACTORS = (1.0, 0.3, 3.0, 0.1)

#: So few steps only try whether it runs: what that is called is a matter of taste, so that no truth is told of it.
SMOKE_STEPS = 200

_IMAGES = ("resnet18", "wrn-28-10", "convnext_tiny", "resnet50", "vit_base_patch16_224", "efficientnet_b0", "small_cnn")


@dataclass(frozen=True, slots=True)
class Style:
    """A way of writing a job. ``counts``: what ends a run, ``epochs``, ``steps`` or ``either``.

    ``overridable`` are the fields of `Setting` that a launch can change without touching a file.
    """

    name: str
    program: Callable[[Project, Setting, Setting], Program]
    models: Sequence[str]
    overridable: frozenset[str]
    odds: float = 1.0
    suffix: str = ""
    launchers: Sequence[str] = ("plain",)
    widest: int = 8
    counts: str = "epochs"
    steps: tuple[float, float] = (2_000.0, 60_000.0)
    accumulates: bool = False
    precisions: Sequence[str] = ("fp32",)
    stops_early: bool = False
    frozen_by: str = ""

    def can_change(self, project: Project) -> frozenset[str]:
        """The fields that this project's launches can change: none where a habit, ``frozen_by``, leaves no way."""
        return frozenset() if self.frozen_by and project.quirks[self.frozen_by] else self.overridable


def images(*without: str) -> tuple[str, ...]:
    """The image classifiers but for some."""
    return tuple(name for name in _IMAGES if name not in without)


def context(project: Project, base: Setting, **more: Any) -> dict[str, Any]:
    """What a template may say. ``old`` are stale defaults, ``lie`` what comments and leftovers state."""
    draw = Draw(0, "stale", project.key)
    return {
        "p": project,
        "u": project.user,
        "m": project.model,
        "d": project.dataset,
        "w": project.words,
        "q": project.quirks,
        "b": base,
        "length": base.length,
        "old": _other_values(base, draw),
        "lie": _other_values(base, draw),
        **more,
    }


def _other_values(base: Setting, draw: Draw) -> dict[str, Any]:
    epochs, steps, batch = base.epochs or 3, base.steps or 10_000, base.batch
    return {
        "epochs": draw.one([n for n in (1, 3, 5, 10, 24, 50, 100, 300) if n != epochs]),
        "steps": draw.one([n for n in (500, 1_000, 20_000, 150_000) if n != steps]),
        "batch": draw.one([n for n in (4, 8, 16, 48, 96, 512) if n != batch]),
        "rate": draw.one([r for r in (0.01, 0.0007, 3e-5) if r != base.rate]),
        "gpus": draw.one([n for n in (1, 2, 4, 8) if n != base.gpus]),
        "hours": draw.whole(2, 90),
    }


def told(project: Project, run: Setting, *omit: str, **more: Any) -> dict[str, Any]:
    """The facts that code and launch decide. ``omit`` names those that this program leaves open."""
    facts: dict[str, Any] = {
        "workload_type": "finetune" if project.model.is_language and run.length else "train",
        "num_gpus": run.gpus,
        "num_nodes": run.nodes,
        "batch_size_per_gpu": run.batch,
        "global_batch_size": run.global_batch,
        "learning_rate": run.rate,
        "precision": run.precision,
        "optimizer": project.model.optimizer,
        "early_stopping": run.patience is not None,
    }
    if run.steps is not None and run.steps <= SMOKE_STEPS:
        del facts["workload_type"]
    if run.epochs is not None:
        facts["epochs"] = run.epochs
    if run.steps is not None:
        facts["max_steps"] = run.steps
    if run.length is not None:
        facts["seq_len"] = run.length
    facts.update({name: value for name, value in more.items() if name != "workload_type" or name in facts})
    return {name: value for name, value in facts.items() if name not in omit}


def changed(base: Setting, run: Setting, words: Mapping[str, str]) -> list[str]:
    """The words of a launch for the fields that differ; ``words`` are formats by field."""
    return [
        form.format(getattr(run, name)) for name, form in words.items() if getattr(run, name) != getattr(base, name)
    ]


def number(value: float) -> str:
    """A rate as people type it."""
    return f"{value:.0e}".replace("e-0", "e-") if value < 1e-3 and float(f"{value:.0e}") == value else f"{value:g}"


def launch(
    project: Project,
    base: Setting,
    run: Setting,
    head: Callable[[Setting], str],
    extra: Sequence[str],
    *,
    files: Mapping[str, str],
    facts: Mapping[str, Any],
    log: str,
    compiles: bool = False,
    unread: tuple[str, ...] = (),
    **fill: Any,
) -> Program:
    """A program that ``head`` starts with further words, as the project's people start theirs; ``fill`` goes to its
    templates."""
    command, further, more = _started(project, base, run, head, extra)
    filled = context(project, base, **fill, **more)
    return Program(command, {**files, **further}, filled, facts, log, compiles, unread)


def _started(
    project: Project, base: Setting, run: Setting, head: Callable[[Setting], str], extra: Sequence[str]
) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The command, further files, and what fills them.

    ``plain``: typed as it is; ``nohup``: typed and left alone; ``srun``: with its GPUs asked for on the spot;
    ``sbatch``: by a batch script that passes words on.
    """
    words = " ".join(extra)
    typed = f"{head(run)} {words}".strip()
    if project.launcher == "nohup":
        first, _, rest = typed.partition(" ")
        left_alone = f"{first} nohup {rest}" if "=" in first else f"nohup {typed}"  # variables can not follow it
        return f"{left_alone} > {project.words['flavour']}.log 2>&1", {}, {}
    if project.launcher == "srun":
        return f"srun -N {run.nodes} --gres=gpu:{run.gpus_per_node} --pty {typed}", {}, {}
    if project.launcher == "sbatch":
        asked = f"--gres=gpu:{run.gpus_per_node} " if run.gpus != base.gpus else ""
        return (
            f"sbatch {asked}{project.words['entry']}_job.sh {words}".strip(),
            {f"{project.words['entry']}_job.sh": "common/job.sh.j2"},
            {"head": head(base)},
        )
    return typed, {}, {}


def gpus_are_told(project: Project) -> bool:
    """Whether the launch itself asks for a number of GPUs."""
    return project.launcher in ("srun", "sbatch")
