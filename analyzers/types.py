"""What the analysers take and return. Frozen; plain values only, so that every one of them can go out as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]

#: How a fact was found, from the surest to the least sure.
How = Literal["literal", "override", "default", "computed", "looked_up", "model"]

#: Every name a fact can have; the JSON contract of `schedmate analyze` (docs/json.md).
FACT_NAMES: tuple[str, ...] = (
    "framework", "workload_type", "task", "model", "model_params_approx", "model_shape", "dataset",
    "batch_size_per_gpu", "global_batch_size", "epochs", "max_steps", "iter_type",
    "num_gpus", "num_nodes", "parallelism", "precision", "optimizer", "learning_rate",
    "seq_len", "image_size", "grad_accum", "activation_checkpointing",
    "checkpoints", "resumable", "early_stopping", "adapters", "weight_bits",
)  # fmt: skip

#: Every name that what a launch asks the scheduler for can have: GPUs, nodes and host memory of the whole job.
REQUEST_NAMES: tuple[str, ...] = ("limit_s", "gpus", "gpu_type", "nodes", "memory_mib", "name")

#: How a job can end.
Outcome = Literal["completed", "failed", "cancelled", "timeout"]

#: Where a job stands or how it ended, as exactly as schedulers tell.
State = Literal[
    "pending", "running", "suspended", "completed", "failed", "cancelled", "timeout", "node_fail", "out_of_memory",
    "boot_fail", "deadline", "preempted",
]  # fmt: skip

Category = Literal[
    "infrastructure-hardware", "infrastructure-network", "storage", "framework", "user-code",
    "resource-request", "scheduler-or-preemption", "data", "unknown", "none",
]  # fmt: skip

Action = Literal[
    "restart_same_nodes", "cordon_node_and_restart", "retry_with_backoff", "requeue_from_checkpoint",
    "resubmit_longer_limit", "lower_gpu_memory", "raise_host_memory_or_reduce", "raise_shm",
    "free_storage_then_retry", "fallback_to_previous_checkpoint", "fix_code", "fix_config",
    "fix_environment", "fix_credentials", "fix_data_or_skip", "rollback_and_investigate", "none",
]  # fmt: skip

Anomaly = Literal["stall", "divergence", "slowdown", "straggler", "loss_spike"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it is handed in: what a scheduler knows before it runs.

    ``workdir`` is only ever read. ``limit_s`` is the hard time limit in seconds; ``env`` the environment given
    at submission (never this process's own).
    """

    command: str
    workdir: Path | None = None
    user: str | None = None
    tenant: str | None = None
    name: str | None = None
    gpus: int | None = None
    gpu_type: str | None = None
    nodes: int | None = None
    limit_s: float | None = None
    submit_s: float | None = None
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceEvidence:
    """Where a fact is evident. ``file`` is relative to the work dir, or ``"launch"`` (then ``line`` is 1)."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Fact:
    """One reading. ``value`` is JSON-able; ``confidence`` in 0..1 is the chance that it is right."""

    value: JsonValue
    confidence: float
    evidence: tuple[SourceEvidence, ...] = ()
    how: How = "literal"


#: How much of the source was read: ``full``; ``partial`` (files were ignored on demand); ``off`` (on demand none, only
#: request and launch command); ``none`` (no work dir was given).
SourceState = Literal["full", "partial", "off", "none"]


@dataclass(frozen=True, slots=True)
class SourceReading:
    """How much of the source was read, and in words who wanted less (empty where nobody did)."""

    state: SourceState = "none"
    why: str = ""


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """What source and launch command say. A fact that can not be known is absent, never guessed.

    ``fingerprint`` identifies the workload for retrieval (stable under renames of paths, comments and seeds).
    ``request`` is what the launch asks the scheduler for (names in ``REQUEST_NAMES``), with the lines that say so.
    ``source`` tells whether the source was read at all. ``summary`` is a language model's, for people only.
    """

    facts: Mapping[str, Fact] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    fingerprint: str = ""
    request: Mapping[str, Fact] = field(default_factory=dict)
    source: SourceReading = field(default_factory=SourceReading)
    summary: str = ""

    def value(self, name: str, minimum_confidence: float = 0.5) -> JsonValue:
        """The fact's value, or None where it is absent or less sure than ``minimum_confidence``."""
        fact = self.facts.get(name)
        return fact.value if fact is not None and fact.confidence >= minimum_confidence else None


@dataclass(frozen=True, slots=True)
class LogEvidence:
    """One line that stands in the input. ``file`` is relative to the path that was read; ``line`` counts from 1."""

    file: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Echo:
    """A line that looks like a cause and was dismissed, with the reason in words."""

    file: str
    line: int
    text: str
    why: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as a log tells of it. ``path`` as printed; ``step`` and ``epoch`` that it is of, by the line or its
    path, else the latest before it; ``time`` on the log's own clock, without a zone."""

    path: str | None
    step: int | None
    epoch: float | None
    time: datetime | None
    evidence: LogEvidence


#: What a silence may be: a kind of pause that is due, the end of an epoch, a pause of no known kind, uneven gaps.
QuietReason = Literal["eval", "save", "compile", "epoch", "pause", "uneven"]


@dataclass(frozen=True, slots=True)
class Quiet:
    """No record of progress for longer than three usual gaps: ``seconds`` since the last one, whose ``usual_gap_s`` is.

    From ``stall_after_s`` on it is a stall. ``may_be`` is why that is longer; None where nothing is due.
    """

    seconds: float
    usual_gap_s: float
    stall_after_s: float
    may_be: QuietReason | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is, read from its log.

    ``seconds_per_step`` is at the present pace; ``eta_seconds`` counts from the last record to the end of the
    whole run, pauses that keep coming included, and ``eta_range`` holds it in four of five runs that go on as they
    have. ``last_loss`` is a number or the string ``"nan"``. ``ended`` is how the log ends where it says so.
    ``not_understood`` names what no line of the log was understood to hold: then trouble may be missed.
    ``checkpoint`` is the latest that was written completely, ``unsafe_checkpoint`` a later one that failed or is not
    known to be complete. ``metrics`` are the last values of what else is measured, by name. ``quiet`` is told sooner
    than a stall, and where a pause may be the reason. What the log does not say is None.
    """

    current_step: int | None = None
    total_steps: int | None = None
    current_epoch: float | None = None
    total_epochs: int | None = None
    seconds_per_step: float | None = None
    last_loss: float | str | None = None
    eta_seconds: float | None = None
    eta_range: tuple[float, float] | None = None
    anomaly: Anomaly | None = None
    evidence: tuple[LogEvidence, ...] = ()
    format: str | None = None
    ended: Outcome | None = None
    not_understood: tuple[Literal["counter", "time"], ...] = ()
    checkpoint: Checkpoint | None = None
    unsafe_checkpoint: Checkpoint | None = None
    metrics: tuple[tuple[str, float | str], ...] = ()
    quiet: Quiet | None = None


#: On whose word nodes are named: a file that only the platform writes (kernel, scheduler, Kubernetes, a node's
#: service), logs of several jobs, or the job's log alone, in which a program can print whatever it likes.
NodeProof = Literal["platform", "several-jobs", "job-log"]


#: What the past says about a failure: it happened on other nodes too; a node of this job ended jobs of others; jobs
#: stumbled over the same file; the same work failed this way time and again.
PastKind = Literal["same-failure-elsewhere", "node-ends-jobs", "same-data", "repeated"]


@dataclass(frozen=True, slots=True)
class PastNote:
    """One thing that the past says about a failure, in words, with the jobs and nodes that it rests on."""

    kind: PastKind
    says: str
    jobs: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


#: What a step of a recovery plan does; ``advice`` is one that only people can take.
StepKind = Literal[
    "exclude_nodes", "fix_line", "raise_limit", "lower_memory", "requeue_from_checkpoint", "restart", "wait", "advice",
]  # fmt: skip

LimitName = Literal["time", "host-memory", "gpu-memory"]


@dataclass(frozen=True, slots=True)
class LimitChange:
    """A limit that was too low. ``had`` and ``needed`` as far as the log says, ``to`` what to ask for; seconds for
    time, MiB for memory. For GPU memory ``needed`` is what was asked for at last and ``to`` is None: it has to fit."""

    limit: LimitName
    had: float | None
    needed: float | None
    to: float | None
    unit: Literal["s", "MiB"]


@dataclass(frozen=True, slots=True)
class CodePlace:
    """The innermost line of the job's own code in the traceback, as the traceback names it."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One step, in words and for machines: what it needs is filled in by its kind."""

    kind: StepKind
    says: str
    nodes: tuple[str, ...] = ()
    checkpoint: str | None = None
    checkpoint_step: int | None = None
    change: LimitChange | None = None
    place: CodePlace | None = None


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What to do about a failure, in order. ``lost_s``: run time since the last checkpoint (or the start), which must
    be done again; ``wrong_s``: the run time that another such run takes if the plan is wrong. Each also in GPU hours
    where the number of GPUs is known."""

    steps: tuple[PlanStep, ...]
    lost_s: float | None = None
    wrong_s: float | None = None
    gpus: int | None = None
    lost_gpu_hours: float | None = None
    wrong_gpu_hours: float | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a job failed. ``evidence`` is best first; ``retryable``: is rerunning unchanged expected to help.
    ``node_proof`` says on whose word ``culprit_nodes`` are named, None where there are none. ``past``: what earlier
    diagnoses say about it, where they were asked; ``plan``: what to do, where it was asked for."""

    category: Category
    subcategory: str
    confidence: float
    culprit_ranks: tuple[int, ...] = ()
    culprit_nodes: tuple[str, ...] = ()
    node_proof: NodeProof | None = None
    evidence: tuple[LogEvidence, ...] = ()
    echoes: tuple[Echo, ...] = ()
    retryable: bool | None = None
    action: Action = "none"
    summary: str = ""
    explanation: str = ""
    warnings: tuple[str, ...] = ()
    past: tuple[PastNote, ...] = ()
    plan: RecoveryPlan | None = None


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """How one attempt of a job ended: what a diagnosis of later jobs can be compared with.

    ``at_s`` is the end in seconds since 1970; ``category`` is ``"none"`` for one that ended well. ``work`` says what
    was run (the same for all runs of it), ``failure`` is the fingerprint of how it failed and ``own_code`` whether that
    rests on a frame of the job's own code. ``nodes_told``: the scheduler or an operator said where it ran, not the
    job's own log. ``culprits`` are nodes that the platform itself spoke of; ``data`` is the file it stumbled over.
    ``node_fault``: it was diagnosed as the fault of a node, whoever says so and whether or not it is known which;
    ``accused`` are the nodes that logs of jobs name for it, in which a program can print whatever it likes.
    """

    job_id: str
    at_s: float
    category: Category
    subcategory: str = ""
    attempt: int = 0
    user: str = ""
    work: str = ""
    failure: str = ""
    own_code: bool = False
    nodes: tuple[str, ...] = ()
    nodes_told: bool = False
    culprits: tuple[str, ...] = ()
    data: str = ""
    retryable: bool | None = None
    node_fault: bool = False
    accused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job of the past, or one row of a trace. Times are seconds on the trace's own clock.

    ``duration_s`` is the runtime until the job ended for whatever reason, over all ``attempts``; None while it runs and
    for a job that never ran. ``requested_s`` is the user's time limit or estimate; ``eligible_s`` when nothing (a
    dependency, a hold) but the queue kept it from starting; ``end_s`` when it last ended, later than start plus
    duration where it was started more than once. ``state`` is what ``outcome`` puts coarsely. ``gpu_milli``: of each
    of the ``gpus`` only so many thousandths were asked for. ``gpu_type`` may name several, with ``|`` between them.
    ``cpus`` and ``memory_mib`` are those of the whole job.
    ``workdir`` is where its source lies, as the trace names it: a relative one starts at the trace's own folder.
    ``ran_so_far_s``: the runtime, over all attempts, of one that still ran when the trace was written.
    """

    job_id: str
    submit_s: float
    duration_s: float | None
    gpus: int
    start_s: float | None = None
    user: str | None = None
    tenant: str | None = None
    name: str | None = None
    command: str | None = None
    gpu_type: str | None = None
    nodes: int | None = None
    requested_s: float | None = None
    outcome: Outcome | None = None
    fingerprint: str | None = None
    facts: Mapping[str, JsonValue] = field(default_factory=dict)
    peak_gpu_memory_mib: float | None = None
    mean_gpu_utilization: float | None = None
    peak_host_memory_mib: float | None = None
    eligible_s: float | None = None
    end_s: float | None = None
    state: State | None = None
    partition: str | None = None
    cpus: float | None = None
    memory_mib: float | None = None
    gpu_milli: int | None = None
    attempts: int | None = None
    workdir: str | None = None
    ran_so_far_s: float | None = None
