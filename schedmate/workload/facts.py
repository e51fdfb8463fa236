"""What code and launch decide, stated by who wrote them: the facts that a careful reader could find."""

from __future__ import annotations

from analyzers.types import JsonValue
from schedmate.workload.sessions import Draft

_PRECISION = {"fp32": "fp32", "amp-fp16": "amp-fp16", "bf16": "bf16"}


def facts_of(draft: Draft) -> dict[str, JsonValue]:
    """Facts in the names of `analyzers.types.FACT_NAMES`. What depends on the machine or the data is left out."""
    project, hyper, style = draft.project, draft.hyper, draft.project.style
    facts: dict[str, JsonValue] = {"framework": style.fact_framework, "num_nodes": project.nodes}
    if style.states_gpus:
        facts["num_gpus"] = project.gpus
    if draft.kind == "evaluation":
        return facts
    facts |= {
        "dataset": project.dataset,
        "model": project.model.name,
        "batch_size_per_gpu": hyper.batch,
        "learning_rate": float(hyper.lr),
        "precision": _PRECISION[project.precision],
        "optimizer": project.optimizer,
        "early_stopping": "early_stopping" in project.quirks,
    }
    if hyper.max_steps is not None and style.iterations == "steps":
        facts["max_steps"] = hyper.max_steps
    elif hyper.max_steps is None:
        facts["epochs"] = hyper.epochs
    if project.model.seq_len and style.log in ("hf", "deepspeed", "megatron"):
        facts["seq_len"] = project.model.seq_len
    if style.accumulates:
        facts["grad_accum"] = hyper.accum
    return facts


def unread_options(draft: Draft) -> tuple[str, ...]:
    """Options that the program declares and uses nowhere."""
    return tuple(option.flag for option in draft.project.dead_options)
