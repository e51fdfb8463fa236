"""Lines that are no failure but say where a log stands: progress, success, a new attempt, a handled error."""

from __future__ import annotations

import re
from typing import Literal

Mark = Literal["traceback", "success", "attempt", "handled", "layout"]

_STEP_WORD = r"(?:step|iter|iteration|it|epoch|global_step|batch|update|Step|Iteration|Epoch|Iter|STEP)"
_METRIC = r"(?:[Ll]oss|\blr\b|learning_rate|grad_norm|grad norm|tok/s|tokens/s|samples/s|it/s|s/it|elapsed|\bacc\b|accuracy|\bppl\b|\beta\b|ETA)"

#: A step of the training with one of its figures. Most lines of a log are this, so it is looked for only where it matters.
PROGRESS = re.compile(
    rf"\b{_STEP_WORD}\b[ =:#\[(]{{0,4}}\d+.{{0,160}}{_METRIC}|{_METRIC}.{{0,160}}\b{_STEP_WORD}\b['\"]?[ =:#\[(]{{0,4}}\d+"
    r"|\d+%\|.{0,80}\| {0,3}\d+/\d+|^[^A-Za-z]{0,40}\{'loss': "
)

MARKS: tuple[tuple[Mark, re.Pattern[str]], ...] = (
    (
        "traceback",
        re.compile(r"Traceback \(most recent call last\)|Traceback \(innermost last\)|Exception Group Traceback"),
    ),
    (
        "success",
        re.compile(
            r"[Tt]raining (?:has )?(?:finished|complete|completed|done|ended)\b|[Ff]inished training|[Dd]one training|exits successfully"
            r"|exit(?:ing|ed|s)? (?:with )?(?:code|status)?:? ?0\b|== exit 0|(?:[Jj]ob|[Rr]un|[Ss]cript|[Pp]rogram) (?:completed|finished) ?(?:successfully|ok|normally)"
            r"|`Trainer\.fit` stopped: `max_(?:epochs|steps)|Training completed\. Do not forget|max_steps=\d+. reached"
            r"|[Ss]aved final|[Cc]ompleted successfully|All done\b|State=COMPLETED|Reason: +Completed|Trial .{0,40} completed"
        ),
    ),
    (
        "attempt",
        re.compile(
            r"^[\s=#*\->\[]{2,}.{0,40}\b(?:restart|attempt|requeued?|incarnation|retry|rerun)\b"
            r"|will restart worker group|restart_count=[1-9]|^[\s=#*\->\[]{2,}.{0,60}\bprevious (?:attempt|run)\b"
            r"|JOB \d+ .{0,60}REQUEUED|RESTART_COUNT=[1-9]"
        ),
    ),
    (
        "handled",
        re.compile(
            r"\((?:was )?caught\b|\bcaught[;,:.]|\bcaught and\b|[Rr]etry(?:ing)?\b|attempt \d+ ?(?:/|of) ?\d+|[Ff]alling back|[Ff]all back|\b[Ss]kipp(?:ed|ing)\b|[Rr]ecovered\b"
            r"|trying (?:again|\d|with|next)|[Cc]ontinu(?:e|ing) (?:anyway|without|with)|\bignor(?:ed|ing)\b|halving|[Rr]educ(?:ed|ing) batch"
            r"|using .{0,20}batch(?:[ _]size)? \d|will be (?:skipped|ignored)|(?:is )?optional|not (?:installed|available), (?:using|disabl)"
        ),
    ),
    (
        "layout",
        re.compile(
            r"\bnranks \d+ |NCCL INFO Bootstrap ?: Using|^ {0,6}(?:host|rank|exitcode) {1,8}: |host=\S+ .{0,40}\branks?\b"
            r"|node[ =]\S+ .{0,40}\branks?\b|Successfully assigned |local_rank: \d+ \(pid: \d+\)|GPU ?\d+ ?= ?PCI:"
            r"|rank \d+ with PID \d+ on node|\b(?:StepId|JobId|SLURM_JOB_ID|SLURM_JOBID)=\d+|\bjob[ =]\d{3,}\b|\*\*\* (?:JOB|STEP) \d+"
        ),
    ),
)
PREVIOUS = re.compile(r"\bprevious (?:attempt|run)\b")
GIVES_UP = re.compile(
    r"giv(?:e|ing) up|no (?:more )?(?:retries|attempts)|max(?:imum)? (?:retries|attempts)|reached max|exhausted|aborting",
    re.I,
)
