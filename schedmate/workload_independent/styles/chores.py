"""Jobs that train nothing that their code tells of: evaluation, inference, preparing data, foreign binaries."""

from __future__ import annotations

from schedmate.workload_independent.settings import Program, Project, Setting
from schedmate.workload_independent.styles.base import Style, changed, context, images, launch


def _evaluate(project: Project, base: Setting, run: Setting) -> Program:
    extra = [f"runs/{project.words['flavour']}/best.pt", *changed(base, run, {"batch": "-b {}"})]
    return launch(
        project,
        base,
        run,
        lambda _: "python eval.py",
        extra,
        files={"eval.py": "evaluate/eval.py.j2"},
        facts={
            "workload_type": "eval",
            "framework": "pytorch",
            "num_gpus": 1,
            "num_nodes": 1,
            "batch_size_per_gpu": run.batch,
        },
        log="tqdm",
    )


def _generate(project: Project, base: Setting, run: Setting) -> Program:
    extra = [
        f"--prompts prompts/{project.words['flavour']}.jsonl",
        *changed(base, run, {"batch": "--chunk {}", "gpus": "--tp {}"}),
    ]
    return launch(
        project,
        base,
        run,
        lambda _: "python gen.py",
        extra,
        files={"gen.py": "generate/gen.py.j2"},
        facts={"workload_type": "inference", "num_gpus": run.gpus, "num_nodes": 1},
        log="counted",
    )


def _prepare(project: Project, base: Setting, run: Setting) -> Program:
    sets = changed(base, run, {"batch": "BS={}"})
    return Program(
        command=" ".join([*sets, f"python prep.py /raw/{project.dataset.name}.jsonl /scratch/{project.user}/vec"]),
        files={"prep.py": "prepare/prep.py.j2"},
        context=context(project, base),
        facts={"workload_type": "preprocess", "framework": "pytorch", "num_gpus": 1, "num_nodes": 1},
        log="counted",
    )


def _opaque(project: Project, base: Setting, run: Setting) -> Program:
    """What it does stands in a binary and in an input that is not there: nothing can be known, on purpose."""
    entry = project.words["entry"]
    if project.quirks["linear"]:
        command, files = f"Rscript fit.R cfg_{project.words['flavour']}.rds out.rds", {"fit.R": "opaque/fit.R.j2"}
    else:
        command = f"bash job.sh inputs/{project.words['flavour']}.inp"
        files = {"job.sh": "opaque/job.sh.j2", f"src/{entry}.cu": "opaque/loop.cpp.j2"}
    return Program(command=command, files=files, context=context(project, base), facts={}, log="residuals")


CHORES: dict[str, Style] = {
    style.name: style
    for style in (
        Style(
            "evaluate",
            _evaluate,
            images("wrn-28-10", "small_cnn"),
            frozenset({"batch"}),
            odds=2.0,
            suffix="eval",
            launchers=("plain", "srun", "sbatch"),
            widest=1,
            precisions=("fp32",),
        ),
        Style(
            "generate",
            _generate,
            ("Qwen2.5-1.5B", "Mistral-7B-v0.1"),
            frozenset({"batch", "gpus"}),
            odds=1.0,
            suffix="gen",
            widest=4,
            launchers=("plain", "sbatch"),
            precisions=("bf16",),
        ),
        Style(
            "prepare",
            _prepare,
            ("bert-base-uncased", "roberta-large"),
            frozenset({"batch"}),
            odds=0.7,
            suffix="prep",
            widest=1,
            precisions=("amp-fp16",),
        ),
        Style(
            "opaque",
            _opaque,
            ("schnet", "unet", "small_cnn"),
            frozenset(),
            odds=0.8,
            suffix="sim",
            widest=4,
            precisions=("fp32",),
            stops_early=False,
        ),
    )
}
