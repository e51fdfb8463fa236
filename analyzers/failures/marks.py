"""Lines that are no failure but say where a log stands: success, a new attempt, a handled error, who runs where,
a start, a start from a checkpoint."""

from __future__ import annotations

import re
from typing import Literal

Mark = Literal["traceback", "success", "attempt", "begin", "handled", "layout", "resumed"]

_STEP = r"\b(?:step|iter|iteration|it|epoch|global_step|batch|update|Step|Iteration|Epoch|Iter|STEP)\b"
_FIGURE = (
    r"(?:[Ll]oss|\blr\b|learning_rate|grad_norm|grad norm|tok/s|tokens/s|samples/s|it/s|s/it|elapsed|\bacc\b|accuracy"
    r"|\bppl\b|\beta\b|ETA)"
)
_TO_NUMBER = r"[ =:#\[(]{0,12}"
_HEADING = r"^[\s=#*\->\[]{2,}"


def _any_of(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(alternatives))


#: A step of the training with one of its figures. Most lines of a log are this, so it is looked for only where a
#: verdict needs it.
PROGRESS = _any_of(
    rf"{_STEP}{_TO_NUMBER}\d++.{{0,160}}{_FIGURE}",
    rf"{_FIGURE}.{{0,160}}{_STEP}['\"]?{_TO_NUMBER}\d+",
    r"\d%\|.{0,80}\| {0,3}\d++/\d",  # tqdm
    r"^[^A-Za-z]{0,40}\{'loss': ",  # transformers
    r"\b\d+/\d+ (?:\[[=>.]{1,60}\] )?- .{0,60}\b(?:loss|accuracy): \d",  # Keras
)
#: What every such line has; looser, for looking through many lines at once.
PROGRESS_HAS = (rf"{_STEP}['\"]?{_TO_NUMBER}\d", r"\d%\|", r"\{'loss': ", r"\d/\d+ (?:\[[=>.]{1,60}\] )?- ")

MARKS: tuple[tuple[Mark, re.Pattern[str]], ...] = (
    (
        "traceback",
        _any_of(r"Traceback \(most recent call last\)", r"Traceback \(innermost last\)", "Exception Group Traceback"),
    ),
    (
        "success",
        _any_of(
            r"[Tt]raining (?:has )?(?:finished|complete|completed|done|ended)\b",
            r"[Ff]inished training|[Dd]one training|exits successfully|[Cc]ompleted successfully",
            r"[Aa]ll done\b|[Ss]aved final|['\"]train_runtime['\"]: \d",
            r"exit(?:ing|ed|s)? (?:with )?(?:code|status)?:? ?0\b|== exit 0",
            r"(?:[Jj]ob|[Rr]un|[Ss]cript|[Pp]rogram) (?:completed|finished) ?(?:successfully|ok|normally)",
            r"`Trainer\.fit` stopped: `max_(?:epochs|steps)|Training completed\. Do not forget|max_steps=\d+. reached",
            r"\b[Ss]tate[ =:]{1,2}COMPLETED|\bexit(?:[ _]?code)?[ =:]{1,2}0:0\b|Reason: +Completed",
            r"Trial .{0,40} completed|worker group successfully finished|\[after training is done\]",
            r"[Ff]inal (?:model|checkpoint|weights) .{0,160}(?:ok|saved|written|done)\b",
            r"\b(?:Job|\w{2,12}Job|RayCluster|Workflow|Pipeline) .{0,60}(?:successfully completed|succeeded)\b",
            r"^.{0,60}\bNormal +Completed +job/|[Ss]tatus:? (?:is )?(?:SUCCEEDED|Succeeded|COMPLETED)\b",
        ),
    ),
    (
        "attempt",
        _any_of(
            rf"{_HEADING}.{{0,40}}\b(?:restart|attempt|requeued?|incarnation|retry|rerun)\b",
            rf"{_HEADING}.{{0,60}}\bprevious (?:attempt|run)\b",
            rf"{_HEADING}.{{0,40}}\b(?:[Rr]un|[Tt]ry|[Ll]aunch|[Cc]ycle|[Ii]ncarnation)[ #:=]{{1,2}}\d{{1,4}}\b",
            r"will restart worker group|restart_count=[1-9]|RESTART_COUNT=[1-9]|JOB \d+ .{0,60}REQUEUED",
        ),
    ),
    (
        "begin",
        _any_of(
            r"NCCL INFO Bootstrap ?: Using|Setting OMP_NUM_THREADS environment variable|Initializing distributed",
            r"\[launch\]|== prolog|\bprolog .{0,40}job \d|SLURM_JOB_ID=\d|Starting elastic_operator|launch configs?:",
            r"distributed init \(rank \d+, ?world|[Ii]nitializ(?:ing|ed) (?:the )?process group",
            r"Started a local Ray instance",
        ),
    ),
    (
        "handled",
        _any_of(
            r"\((?:was )?caught\b|\bcaught[;,:.]|\bcaught and\b|[Rr]etry(?:ing)?\b|attempt \d+ ?(?:/|of) ?\d+",
            r"[Ff]alling back|[Ff]all back|\b[Ss]kipp(?:ed|ing)\b|[Rr]ecovered\b|trying (?:again|\d|with|next)",
            r"[Cc]ontinu(?:e|ing) (?:anyway|without|with)|\bignor(?:ed|ing)\b|halving|[Rr]educ(?:ed|ing) batch",
            r"using .{0,20}batch(?:[ _]size)? \d|will be (?:skipped|ignored)|(?:is )?optional",
            r"not (?:installed|available), (?:using|disabl)",
        ),
    ),
    (
        "resumed",
        _any_of(
            r"\b[Rr]esum(?:ing|ed) (?:training |run |job )?(?:from|at|with) .{0,99}(?:ckpt|checkpoint|step|iter|epoch)",
            r"Restored all states from the checkpoint|Continuing training from (?:checkpoint|global step|epoch)",
            r"[Ll]oaded checkpoint .{0,200} (?:at|iteration|step|epoch) {0,2}(?:iteration )?[1-9]",
            r"[Rr]estor(?:ed|ing) .{0,40}(?:ckpt|checkpoint).{0,120}(?:step|iter(?:ation)?|epoch)[-_ =:]{0,3}[1-9]",
        ),
    ),
    (
        "layout",
        _any_of(
            r"\bnranks \d+ |NCCL INFO Bootstrap ?: Using|^ {0,6}(?:host|rank|exitcode) {1,8}: ",
            r"host=\S+ .{0,40}\branks?\b|node[ =]\S+ .{0,40}\branks?\b|Successfully assigned ",
            r"^(?:Name|Node): {2,}\S|\bpod=\S+ .{0,20}node=|\b(?:[Rr]ank|[Pp]rocess) \d+ .{0,30}\bon [a-z]",
            r"srun: error: \S+: tasks? \d",
            r"\) world_rank=\d+|local_rank: \d+ \(pid: \d+\)|[Ll]ocal[ _]rank[ =:]|GPU ?\d+ ?= ?PCI:",
            r"rank \d+ with PID \d+ on node|SLURM_\w{0,12}NODELIST[=:]|\bworld[_ ]size[=:]",
            r"\b(?:StepId|JobId|SLURM_JOB_ID|SLURM_JOBID)=\d+|\bjob[ =]\d{2,}\b|\*\*\* (?:JOB|STEP) \d+",
        ),
    ),
)
#: ``step 2000/2000``: the last one. An epoch that is not the last one must not stand beside it.
_OF_TOTAL = re.compile(r"\b(\d{2,9})(?:/| of ) {0,8}(\d{2,9})\b")
_EPOCH = re.compile(r"\b[Ee]poch[ =:\[]{0,3}\d")


def is_last_step(text: str) -> bool:
    """Whether a line of progress reports the last step of all, by its own counters."""
    counters = _OF_TOTAL.findall(text[:300])
    return bool(counters) and "%|" not in text and all(a == b for a, b in counters) and not _EPOCH.search(text)


JOB_ID = re.compile(r"\b(?:StepId|JobId|SLURM_JOB_ID|SLURM_JOBID)=(\d+)|\*\*\* (?:JOB|STEP) (\d+)|\bjob[ =](\d{2,})\b")
PREVIOUS = re.compile(r"\bprevious (?:attempt|run)\b")
GIVES_UP = re.compile(
    r"giv(?:e|ing) up|no (?:more )?(?:retries|attempts)|max(?:imum)? (?:retries|attempts)|reached max|exhausted"
    r"|aborting",
    re.I,
)
