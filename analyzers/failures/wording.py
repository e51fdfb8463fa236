"""What people are told: one sentence, then a few with what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass

from analyzers.failures.events import Event
from analyzers.types import Action

#: Advice to compare ranks means nothing to a job that has one.
_SPEAKS_OF_RANKS = re.compile(r"\b(?:ranks?|hosts|peer)\b")

UNPROVEN = (
    "Only the job's own log names the node, and a job can print anything: look into the node's kernel log before it is "
    "taken out of service."
)
WHAT_TO_DO: dict[Action, str] = {
    "restart_same_nodes": "Restart the job; the same nodes will do. Watch them if it happens again.",
    "cordon_node_and_restart": "Take the node out of service, have it checked, and restart the job on other nodes "
    "from its last checkpoint.",
    "retry_with_backoff": "Run it again after a pause; if it returns, spread the load or look at the service.",
    "requeue_from_checkpoint": "Requeue the job; it continues from its last checkpoint.",
    "resubmit_longer_limit": "Resubmit with a longer time limit, or continue from the last checkpoint.",
    "lower_gpu_memory": "Lower the memory needed per GPU: a smaller micro-batch or sequence, activation "
    "checkpointing, or more sharding.",
    "raise_host_memory_or_reduce": "Ask for more host memory, or use fewer data workers and smaller caches.",
    "raise_shm": "Give the container more shared memory (/dev/shm), or use fewer data workers.",
    "free_storage_then_retry": "Free space or raise the quota, then run it again. Check that the last checkpoint is "
    "whole.",
    "fallback_to_previous_checkpoint": "Resume from the checkpoint before this one and remove the broken one.",
    "fix_code": "Correct the code at the quoted place; running it again unchanged will fail the same way.",
    "fix_config": "Correct the configuration, path or launch command; running it again unchanged will fail the same "
    "way.",
    "fix_environment": "Correct the environment (image, driver or package versions).",
    "fix_credentials": "Renew or add the credentials that the job uses.",
    "fix_data_or_skip": "Repair or leave out the broken sample or shard.",
    "rollback_and_investigate": "Go back to a checkpoint from before the numbers went bad and look at the data and "
    "the learning rate there.",
    "none": "Nothing needs to be done.",
}


_CORRECT_WHAT_IT_NAMES = "Correct the code or the inputs; running it again unchanged will fail the same way."


def subject(ranks: tuple[int, ...], nodes: tuple[str, ...]) -> str:
    """Who is meant, in words; empty where nobody is."""
    who = f"rank {', '.join(map(str, ranks))}" if ranks else ""
    place = f"node {', '.join(nodes)}" if nodes else ""
    return f"{who} on {place}" if who and place else who or place


def summary(cause: Event, ranks: tuple[int, ...], nodes: tuple[str, ...]) -> str:
    """One sentence."""
    who = subject(ranks, nodes)
    return f"{cause.signature.says} ({who})." if who else f"{cause.signature.says}."


@dataclass(frozen=True, slots=True)
class Told:
    """What an explanation is made of. ``line`` is quoted first; ``supporting`` and ``echoes`` count."""

    cause: Event
    line: Event
    action: Action
    supporting: int
    echoes: int
    notes: tuple[str, ...] = ()


def explanation(told: Told, many: bool) -> str:
    """A few sentences: where it stands, what follows from it, what to do. ``many``: the job has more than one rank."""
    cause = told.cause
    parts = [f"The line that tells it is {told.line.file}:{told.line.line}."]
    if cause.user_frame is not None:
        frame = f"{cause.user_frame.file}:{cause.user_frame.line}"
        if is_asynchronous(cause):
            parts.append(
                f"The job's own code was at {frame} when the error was noticed; CUDA reports errors late, so the call "
                "that caused it may stand earlier."
            )
        else:
            parts.append(f"The innermost line of the job's own code is at {frame}.")
    if told.supporting:
        agree = "1 more line agrees" if told.supporting == 1 else f"{told.supporting} more lines agree"
        parts.append(f"{agree} with it.")
    if told.echoes:
        parts.append(f"Put aside: {look_like_a_cause(told.echoes)}.")
    parts.extend(told.notes)
    clue = told.line.signature.clue
    if clue and not told.notes and (many or not _SPEAKS_OF_RANKS.search(clue.partition(";")[0])):
        parts.append(f"Look at {clue}.")
    late = told.action == "fix_code" and is_asynchronous(cause)
    parts.append(_CORRECT_WHAT_IT_NAMES if late else WHAT_TO_DO[told.action])
    return " ".join(parts)


def look_like_a_cause(lines: int) -> str:
    """A number of lines that were put aside, in words."""
    return "1 line that only looks like a cause" if lines == 1 else f"{lines} lines that only look like a cause"


def is_asynchronous(cause: Event) -> bool:
    """Whether the error came from a GPU kernel, which runs behind the code that started it."""
    return "CUDA error: " in cause.text and cause.signature.subcategory in (
        "bad-index",
        "illegal-access",
        "gpu-unknown",
    )


def reason_for_echo(event: Event) -> str:
    """Why a line is no cause."""
    if event.dismissed:
        return event.dismissed
    if event.outlived:
        return "the job went on for minutes after it"
    if event.signature.role == "informational":
        return event.signature.why or "it ends no job by itself"
    if event.explained_by is not None:
        cause = event.explained_by
        told = event.signature.why or event.signature.says.lower()
        return f"{told}; it follows from {cause.file}:{cause.line}"
    return event.signature.why or "another line is earlier or says more"
