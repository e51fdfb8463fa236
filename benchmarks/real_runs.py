"""The runs of `benchmarks.real_jobs`: who submits what, and how a run is measured."""

from __future__ import annotations

import os
import resource
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from analyzers.types import Outcome

#: The programs, a folder a project.
DATA = Path(__file__).with_name("data") / "real_jobs"

#: By project, whether it needs PyTorch.
USES_TORCH: Mapping[str, bool] = {
    "mlp": True,
    "vision": True,
    "language": True,
    "forecast": True,
    "tabular": False,
    "texts": False,
    "logs": False,
    "clusters": False,
}

#: Who works on what. The first projects of a user are worked on more.
USERS: Mapping[str, tuple[str, ...]] = {
    "ada": ("mlp", "tabular", "language"),
    "ben": ("vision", "logs"),
    "cid": ("language", "texts", "forecast"),
    "dot": ("logs", "clusters", "tabular", "mlp"),
}

#: One of so many runs has something wrong with it.
ONE_IN_WRONG = 8

#: Address space of runs that ask for more.
SCARCE_MIB = 1536
TOO_MANY_ROWS = 60_000_000

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LOKY_MAX_CPU_COUNT"), "1")


@dataclass(frozen=True, slots=True)
class Ask:
    """One run. ``command`` begins with ``python``; ``limit_s`` is what its user asked for; ``memory_mib``: the address
    space that it may have, None for any."""

    job_id: str
    user: str
    name: str
    project: str
    command: str
    limit_s: float
    env: Mapping[str, str] = field(default_factory=dict)
    memory_mib: int | None = None

    @property
    def words(self) -> str:
        """All that its user wrote."""
        return " ".join([*(f"{name}={value}" for name, value in self.env.items()), self.command])


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run took. ``cpu_s``: user and system time; ``peak_rss_mib``: the most resident memory of one process."""

    job_id: str
    wall_s: float
    cpu_s: float
    peak_rss_mib: float
    outcome: Outcome


def _mlp(draw: Random) -> str:
    words = f"python train.py --width {draw.choice((64, 128, 256, 512))} --samples {draw.choice((10000, 20000))}"
    epochs = draw.choice((2, 4, 8))
    return f"{words} --epochs {epochs}" if draw.random() < 0.6 else f"{words} --epochs {5 * epochs} --patience 2"


def _vision(draw: Random) -> str:
    batch, channels = draw.choice((16, 32)), draw.choice((8, 16))
    return f"python train_cnn.py --max-steps {draw.choice((40, 80, 160, 320))} --batch {batch} --channels {channels}"


def _language(draw: Random) -> str:
    return f"python run.py {draw.choice(('small', 'medium', 'long', 'broad'))}.json"


def _forecast(draw: Random) -> str:
    return f"EPOCHS={draw.choice((3, 6, 12))} HIDDEN={draw.choice((32, 64, 128))} python fit.py"


def _tabular(draw: Random) -> str:
    model, rows = draw.choice(("logistic", "forest", "boosting")), draw.choice((3000, 6000, 12000))
    return f"python search.py --model {model} --rows {rows} --folds {draw.choice((2, 3, 5))}"


def _texts(draw: Random) -> str:
    return f"python classify.py --documents {draw.choice((2000, 4000, 8000))} --n-epochs {draw.choice((10, 30, 60))}"


def _logs(draw: Random) -> str:
    rows, chunks = draw.choice((500_000, 1_000_000, 2_000_000, 4_000_000)), draw.choice((2, 4, 8))
    return f"python preprocess.py --rows {rows} --chunks {chunks}"


def _clusters(draw: Random) -> str:
    points, k = draw.choice((60_000, 120_000, 240_000)), draw.choice((32, 64))
    return f"python kmeans.py --points {points} --k {k} --max-iter {draw.choice((50, 100, 200))}"


_SETTINGS: Mapping[str, Callable[[Random], str]] = {
    "mlp": _mlp,
    "vision": _vision,
    "language": _language,
    "forecast": _forecast,
    "tabular": _tabular,
    "texts": _texts,
    "logs": _logs,
    "clusters": _clusters,
}

#: What goes wrong: a file that is not there, a setting that can not be, more memory than there is.
_WRONG: Mapping[str, tuple[Callable[[str], str], ...]] = {
    "mlp": (lambda words: f"{words} --weights checkpoints/last.pt",),
    "vision": (lambda words: f"{words} --image-size 1",),
    "language": (lambda _: "python run.py odd.json",),
    "forecast": (lambda words: words.replace("HIDDEN=", "HIDDEN=x"),),
    "tabular": (lambda words: f"{words} --data tabels/train.csv",),
    "texts": (lambda words: f"{words} --words -1",),
    "logs": (
        lambda words: f"{words} --users users.csv",
        lambda _: f"python preprocess.py --rows {TOO_MANY_ROWS} --chunks 1",
    ),
    "clusters": (lambda words: f"{words} --points 10",),
}


def asks(runs: int, seed: int, projects: Sequence[str]) -> list[Ask]:
    """So many runs of some projects, in order. Users take turns at random, stay with a project for some runs, repeat or
    change their settings, and ask for a round time limit of their own."""
    draw = Random(seed)
    able = {user: [each for each in own if each in projects] for user, own in USERS.items()}
    users = [user for user, own in able.items() if own]
    at = {user: able[user][0] for user in users}
    last: dict[tuple[str, str], str] = {}
    found = []
    for number in range(runs):
        user = draw.choice(users)
        if draw.random() < 0.5:
            own = able[user]
            at[user] = draw.choices(own, [len(own) - i for i in range(len(own))])[0]
        project = at[user]
        words = last.get((user, project), "") if draw.random() < 0.25 else ""
        words = last[user, project] = words or _SETTINGS[project](draw)
        memory_mib = None
        if draw.randrange(ONE_IN_WRONG) == 0:
            words = draw.choice(_WRONG[project])(words)
            memory_mib = SCARCE_MIB if str(TOO_MANY_ROWS) in words else None
        before, _, after = words.partition("python ")
        env = dict(pair.split("=", 1) for pair in shlex.split(before))
        limit_s = {"ada": 120.0, "ben": 300.0, "cid": 180.0, "dot": 600.0}[user]
        name = project if user != "ben" else f"{project}-{number}"
        found.append(Ask(f"r{number}", user, name, project, f"python {after}", limit_s, env, memory_mib))
    return found


def run(ask: Ask) -> Measured:
    """Run it, with one thread and nothing of this process's environment, and wait for its end; at its limit it is
    killed, with all that it started."""
    words = [sys.executable, *shlex.split(ask.command)[1:]]

    def bounded() -> None:
        if ask.memory_mib is not None:
            resource.setrlimit(resource.RLIMIT_AS, (ask.memory_mib << 20, ask.memory_mib << 20))

    with TemporaryDirectory(prefix="schedmate-real-jobs-") as scratch:
        env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": scratch, "TMPDIR": scratch, **_ONE_THREAD, **ask.env}
        began = time.monotonic()
        process = subprocess.Popen(
            words,
            cwd=DATA / ask.project,
            env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=bounded,
            start_new_session=True,
        )
        late = threading.Event()

        def kill() -> None:
            late.set()
            _kill(process.pid)

        timer = threading.Timer(ask.limit_s, kill)
        timer.start()
        try:
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:  # nothing is left running behind an interrupted benchmark
            _kill(process.pid)
            process.wait()
            raise
        finally:
            timer.cancel()
        wall_s = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)  # told, so that it is not waited for again
    unit = 2**20 if sys.platform == "darwin" else 2**10
    outcome: Outcome = "timeout" if late.is_set() else "completed" if process.returncode == 0 else "failed"
    return Measured(ask.job_id, wall_s, used.ru_utime + used.ru_stime, used.ru_maxrss / unit, outcome)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
