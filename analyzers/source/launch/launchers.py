"""Peeling launchers off a command: what each one was told, and the words that remain for the next."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Callable

from analyzers.source.launch.model import Launch, Setting
from analyzers.source.launch.words import UNKNOWN, Word

Words = list[Word]

#: Options without a value. Everything else that starts with a dash takes the next word.
_FLAGS: dict[str, frozenset[str]] = {
    "torchrun": frozenset(["standalone", "m", "module", "no-python", "use-env", "h", "help"]),
    "deepspeed": frozenset(
        ["no_python", "no_local_rank", "no_ssh", "no_ssh_check", "module", "force_multi", "save_pid",
         "bind_cores_to_rank", "elastic_training", "enable_each_rank_log", "h", "help"]
    ),
    "accelerate": frozenset(
        ["cpu", "multi_gpu", "tpu", "ipex", "use_deepspeed", "use_fsdp", "use_megatron_lm", "use_xpu",
         "use_parallelism_config", "m", "module", "no_python", "debug", "q", "quiet", "same_network",
         "enable_cpu_affinity", "tpu_use_cluster", "tpu_use_sudo", "h", "help"]
    ),
    "composer": frozenset(["v", "verbose", "m", "module_mode", "c", "command_mode", "h", "help"]),
    "srun": frozenset(
        ["pty", "label", "l", "unbuffered", "u", "exclusive", "verbose", "v", "quiet", "Q", "overlap", "overcommit",
         "O", "oversubscribe", "s", "multi-prog", "kill-on-bad-exit", "K", "no-kill", "k", "contiguous",
         "export-file", "exact", "preserve-env", "E", "test-only", "Z", "disable-status", "X"]
    ),
    "sbatch": frozenset(["exclusive", "verbose", "v", "quiet", "Q", "overcommit", "O", "oversubscribe", "s", "wait",
                         "W", "parsable", "requeue", "no-requeue", "test-only", "contiguous", "hold", "H",
                         "ignore-pbs"]),
    "mpirun": frozenset(["allow-run-as-root", "oversubscribe", "q", "v", "verbose", "bind-to-none",
                         "report-bindings", "tag-output", "use-hwthread-cpus"]),
    "horovodrun": frozenset(["verbose", "gloo", "mpi", "disable-cache", "autotune", "start-timeout-none", "h", "help"]),
    "python": frozenset(["u", "B", "E", "I", "O", "OO", "s", "S", "v", "b", "q", "i", "P", "x", "d"]),
}  # fmt: skip

#: Launcher options that matter, by launcher: option name -> setting name.
_SETTINGS: dict[str, dict[str, str]] = {
    "torchrun": {"nproc-per-node": "nproc", "nnodes": "nnodes"},
    "deepspeed": {"num_gpus": "nproc", "num_nodes": "nnodes", "include": "include", "hostfile": "hostfile",
                  "H": "hostfile"},
    "accelerate": {
        "num_processes": "processes", "num_machines": "nnodes", "config_file": "config",
        "mixed_precision": "mixed_precision",
        "gradient_accumulation_steps": "grad_accum", "deepspeed_config_file": "deepspeed_config",
        "zero_stage": "zero_stage",
        "gpu_ids": "gpu_ids", "cpu": "cpu", "multi_gpu": "multi_gpu", "use_fsdp": "use_fsdp",
        "use_deepspeed": "use_deepspeed", "fsdp_activation_checkpointing": "activation_checkpointing",
    },
    "composer": {"nproc": "nproc", "n": "nproc", "world_size": "world"},
    "slurm": {
        "nodes": "nodes", "N": "nodes", "ntasks": "tasks", "n": "tasks", "ntasks-per-node": "tasks_per_node",
        "gres": "gpus_per_node", "gpus-per-node": "gpus_per_node", "gpus": "gpus", "G": "gpus",
        "gpus-per-task": "gpus_per_task", "array": "array", "a": "array", "time": "time", "t": "time",
        "chdir": "chdir", "D": "chdir", "ntasks-per-gpu": "tasks_per_gpu", "wrap": "wrap", "job-name": "name",
        "J": "name", "mem": "memory", "mem-per-cpu": "memory_per_cpu", "mem-per-gpu": "memory_per_gpu",
        "cpus-per-task": "cpus_per_task", "c": "cpus_per_task",
    },
    "mpirun": {"np": "processes", "n": "processes", "c": "processes", "npernode": "nproc", "ppn": "nproc"},
    "horovodrun": {"np": "processes", "n": "processes", "num-proc": "processes"},
}  # fmt: skip

_SINGLE_LETTER_VALUES = "NnGDtacpJoewxAqCdLMFKWT"


#: Commands that start another one: their options that take the next word, and the words of their own before it.
_PREFIXES: dict[str, tuple[str, int]] = {
    "nohup": ("", 0), "exec": ("-a", 0), "command": ("", 0), "builtin": ("", 0), "setsid": ("", 0), "unbuffer": ("", 0),
    "caffeinate": ("-t -w", 0), "catchsegv": ("", 0), "proxychains": ("-f", 0), "proxychains4": ("-f", 0),
    "time": ("-f -o --format --output", 0), "nice": ("-n --adjustment", 0),
    "stdbuf": ("-i -o -e --input --output --error", 0),
    "ionice": ("-c -n --class --classdata", 0), "chrt": ("-T -P -D --sched-runtime --sched-period --sched-deadline", 1),
    "taskset": ("", 1), "timeout": ("-s -k --signal --kill-after", 1),
    "flock": ("-w -E --timeout --wait --conflict-exit-code", 1),
    "numactl": ("-i -w -p -P -m -N -C --interleave --weighted-interleave --preferred --preferred-many --membind "
                "--cpunodebind --physcpubind", 0),
    "sudo": ("-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --close-from --role --type "
             "--command-timeout --other-user --chdir --chroot", 0),
    "doas": ("-u -C", 0), "runuser": ("-u -g -G --user --group --supp-group", 0), "prlimit": ("-o --output", 0),
    "strace": ("-o -e -s -E -P -S -a -O -b -u -I -X --output --trace --string-limit", 0),
    "ltrace": ("-o -e -s -S -a -n -u -l -A -D -F -w -x", 0),
    "systemd-run": ("-p -u -t -E -H -M -d --unit --property --slice --description --setenv --uid --gid --nice", 0),
}  # fmt: skip


def take_options(words: Words, flags: frozenset[str], wanted: dict[str, str], launch: Launch) -> Words:
    """Read leading options into ``launch.settings``; return the words from the first that is no option."""
    i = 0
    while i < len(words):
        text = words[i].text
        if text == "--":
            return words[i + 1 :]
        if not text.startswith("-") or text == "-":
            return words[i:]
        name, equals, value = text.lstrip("-").partition("=")
        i += 1
        if not equals and not text.startswith("--") and len(name) > 1 and name[0] in wanted and name[1].isdigit():
            name, value, equals = name[0], name[1:], "="  # -N4
        elif wanted is _SETTINGS["slurm"] and not text.startswith("--") and len(name) > 1 and text[2:3] != "=":
            # Slurm's short options have one letter: -pgpu, -lu.
            name, value, equals = (name[0], text[2:], "=") if name[0] not in flags else (name[0], "true", "=")
        plain = name.replace("_", "-")
        setting = wanted.get(name) or wanted.get(plain)
        if not equals and (name in flags or plain in flags or plain.replace("-", "_") in flags):
            value = "true"
        elif not equals:
            following = words[i].text if i < len(words) else ""
            if setting is None and re.search(r"\.(py|sh|ipynb)$", following):
                value = "true"  # an unlisted flag in front of the program
            else:
                value = following
                i += 1
        if plain == "gres":
            value = _gpu_resource(value)
        if setting is not None and value and UNKNOWN not in value:
            launch.settings[setting] = Setting(value, words[i - 1].file, words[min(i, len(words)) - 1].line)
    return []


def _gpu_resource(value: str) -> str:
    """The part of a list of generic resources that counts GPUs; empty where none does (``lscratch:100``)."""
    return next((part for part in value.split(",") if part.partition(":")[0] == "gpu"), "")


def apply_directive(text: str, file: str, line: int, launch: Launch) -> None:
    """Read one ``#SBATCH`` line."""
    try:
        parts = shlex.split(text)
    except ValueError:  # an open quote
        parts = text.split()
    words = [Word(part, file, line) for part in parts]
    take_options(words, _FLAGS["sbatch"], _SETTINGS["slurm"], launch)


def _torchrun(words: Words, launch: Launch) -> Words:
    launch.launchers.append("torchrun")
    rest = take_options(words, _FLAGS["torchrun"], _SETTINGS["torchrun"], launch)
    return _python_target(words, rest, launch)


def _deepspeed(words: Words, launch: Launch) -> Words:
    launch.launchers.append("deepspeed")
    rest = take_options(words, _FLAGS["deepspeed"], _SETTINGS["deepspeed"], launch)
    return _python_target(words, rest, launch)


def _accelerate(words: Words, launch: Launch) -> Words:
    if not words or words[0].text != "launch":
        return []
    launch.launchers.append("accelerate")
    rest = take_options(words[1:], _FLAGS["accelerate"], _SETTINGS["accelerate"], launch)
    return _python_target(words, rest, launch)


def _composer(words: Words, launch: Launch) -> Words:
    """MosaicML's launcher: ``torchrun`` in other words, with a process for each GPU where nothing else is said."""
    rest = take_options(words, _FLAGS["composer"], _SETTINGS["composer"], launch)
    told = {w.text for w in words[: len(words) - len(rest)]}
    if not rest or not (rest[0].text.endswith(".py") or told & {"-m", "--module_mode", "-c", "--command_mode"}):
        return []  # PHP's program of that name
    launch.launchers.append("torchrun")
    launch.settings.setdefault("nproc", Setting("gpu", words[0].file, words[0].line))
    each, total, world = launch.number("nproc"), launch.number("world"), launch.settings.get("world")
    if world is not None:
        nodes = str(total // each) if each and total and total % each == 0 else "unknown"
        launch.settings["nnodes"] = Setting(nodes, world.file, world.line)
    return _python_target(words, rest, launch)


def _python_target(all_words: Words, rest: Words, launch: Launch) -> Words:
    consumed = {w.text for w in all_words[: len(all_words) - len(rest)]}
    if consumed & {"-m", "--module", "--module_mode"}:
        return [Word("python", "", 0), Word("-m", "", 0), *rest]
    if consumed & {"--no_python", "--no-python", "-c", "--command_mode"}:
        return rest
    return [Word("python", "", 0), *rest]


def _srun(words: Words, launch: Launch) -> Words:
    launch.launchers.append("srun")
    return take_options(words, _FLAGS["srun"], _SETTINGS["slurm"], launch)


def _mpirun(words: Words, launch: Launch) -> Words:
    launch.launchers.append("mpirun")
    return take_options(words, _FLAGS["mpirun"], _SETTINGS["mpirun"], launch)


def _horovodrun(words: Words, launch: Launch) -> Words:
    launch.launchers.append("horovodrun")
    return take_options(words, _FLAGS["horovodrun"], _SETTINGS["horovodrun"], launch)


def _env(words: Words, launch: Launch) -> Words:
    i = 0
    while i < len(words) and (words[i].text.startswith("-") or re.match(r"[A-Za-z_]\w*=", words[i].text)):
        name, equals, value = words[i].text.partition("=")
        if equals and not name.startswith("-"):
            launch.env[name] = value
        elif words[i].text in ("-S", "--split-string") and i + 1 < len(words):
            return _env([*_split(words[i + 1]), *words[i + 2 :]], launch)
        elif words[i].text in ("-u", "-C", "--unset", "--chdir"):
            i += 1
        i += 1
    return words[i:]


def _split(word: Word) -> Words:
    try:
        return [Word(part, word.file, word.line) for part in shlex.split(word.text)]
    except ValueError:  # an open quote
        return [Word(part, word.file, word.line) for part in word.text.split()]


def _prefix(name: str) -> Callable[[Words, Launch], Words]:
    """Peels a command of `_PREFIXES` with its options and its own words off what it starts."""
    listed, count = _PREFIXES[name]
    with_value = frozenset(listed.split())

    def peel(words: Words, launch: Launch) -> Words:
        i = 0
        while i < len(words) and words[i].text.startswith("-"):
            text = words[i].text
            i += 1
            if text == "--":
                break
            if name == "command" and text in ("-v", "-V"):
                return []  # only asks where a command is
            # Letters may stand together; the last may be the one with a value (-fo FILE).
            last = text if text.startswith("--") else f"-{text[-1]}"
            attached = not text.startswith("--") and any(f"-{letter}" in with_value for letter in text[1:-1])
            i += last in with_value and not attached
        while name in ("sudo", "doas") and i < len(words) and re.match(r"[A-Za-z_]\w*=", words[i].text):
            variable, _, value = words[i].text.partition("=")
            launch.env[variable] = value
            i += 1
        return words[i + count :]

    return peel


def _until_program(words: Words, launch: Launch) -> Words:
    """For containers and environment managers: the first word that starts something we know how to read."""
    for i, word in enumerate(words):
        base = posixpath.basename(word.text)
        if is_program(base) and i > 0 and not words[i - 1].text.startswith("--"):
            return words[i:]
        if base.endswith((".py", ".sh")):
            return words[i:]
    if len(words) > 1 and words[0].text == "run" and not words[1].text.startswith("-"):
        return words[1:]  # poetry run NAME: a console script
    return []


def is_program(base: str) -> bool:
    """Whether a command name is one that we peel or that starts Python."""
    return base in LAUNCHERS or base in ("bash", "sh", "sbatch", "jupyter", "papermill") or is_python(base)


def is_python(base: str) -> bool:
    """Whether a command name is a Python interpreter."""
    return re.fullmatch(r"(python|pypy)[\d.]*(w)?|ipython3?", base) is not None


LAUNCHERS: dict[str, Callable[[Words, Launch], Words]] = {
    "torchrun": _torchrun, "composer": _composer, "deepspeed": _deepspeed, "accelerate": _accelerate, "srun": _srun,
    "salloc": _srun, "mpirun": _mpirun, "mpiexec": _mpirun, "orterun": _mpirun, "horovodrun": _horovodrun,
    **{name: _prefix(name) for name in _PREFIXES}, "env": _env, "xvfb-run": _until_program,
    "conda": _until_program, "mamba": _until_program,
    "micromamba": _until_program, "poetry": _until_program, "uv": _until_program, "pipenv": _until_program,
    "pdm": _until_program, "singularity": _until_program,
    "apptainer": _until_program, "docker": _until_program, "podman": _until_program, "nsys": _until_program,
    "aprun": _mpirun, "jsrun": _until_program, "coverage": _until_program, "wandb": _until_program,
}  # fmt: skip


def slurm_options(words: Words, launch: Launch) -> Words:
    """Options of ``sbatch``; what follows is the script and its arguments."""
    return take_options(words, _FLAGS["sbatch"], _SETTINGS["slurm"], launch)


def python_options(words: Words) -> Words:
    """Words after the interpreter's own options (``-u``, ``-X dev``, ``-W ignore``)."""
    i = 0
    while i < len(words):
        text = words[i].text
        if text in ("-X", "-W"):
            i += 2
        elif text in ("-m", "-c") or not text.startswith("-") or text == "-":
            break
        elif text.startswith("-m") and not text.startswith("--"):
            return [
                Word("-m", words[i].file, words[i].line),
                Word(text[2:], words[i].file, words[i].line),
                *words[i + 1 :],
            ]
        else:
            i += 1
    return words[i:]
