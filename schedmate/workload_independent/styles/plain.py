"""Programs that carry their values in themselves: words on the command line, environment, constants, cells."""

from __future__ import annotations

from schedmate.workload_independent.settings import Program, Project, Setting
from schedmate.workload_independent.styles.base import (
    Style,
    changed,
    context,
    gpus_are_told,
    images,
    launch,
    number,
    told,
)


def _python(project: Project) -> str:
    return (
        f"python -u {project.words['entry']}.py" if project.quirks["wandb"] else f"python {project.words['entry']}.py"
    )


def _positional(project: Project, base: Setting, run: Setting) -> Program:
    """Bare words in a fixed order, read from ``sys.argv``."""
    pinned = not project.quirks["clever"] and project.launcher in ("plain", "nohup")

    def head(setting: Setting) -> str:
        cards = ",".join(map(str, range(setting.gpus)))
        return (f"CUDA_VISIBLE_DEVICES={cards} " if pinned and setting.gpus > 1 else "") + _python(project)

    values = [f"/data/{project.dataset.name}", str(run.epochs), str(run.batch * run.gpus), number(run.rate)]
    if run == base:
        # Who is content with the defaults at the end leaves them out.
        values = values[: 1 if project.quirks["clever"] else 2]
    hidden = () if run.gpus == 1 or pinned or gpus_are_told(project) else ("num_gpus", "batch_size_per_gpu")
    return launch(
        project,
        base,
        run,
        head,
        values,
        files={f"{project.words['entry']}.py": "argv/main.py.j2"},
        rate_name="LR",
        facts=told(project, run, *hidden, framework="pytorch"),
        log="print_epoch",
    )


def _environment(project: Project, base: Setting, run: Setting) -> Program:
    """Values in the environment, defaults in the script that starts it, other defaults in the code."""
    words = project.words
    sets = changed(
        base,
        run,
        {
            "batch": words["batch"].upper() + "={}",
            "epochs": words["epochs"].upper() + "={}",
            "rate": words["rate"].upper() + "={:g}",
            "accum": "ACCUM={}",
            "gpus": "NGPU={}",
        },
    )
    scale = run.gpus if project.quirks["linear"] else 1
    return Program(
        command=" ".join([*sets, "bash launch.sh"]),
        files={f"{words['entry']}.py": "env/main.py.j2", "launch.sh": "env/launch.sh.j2"},
        context=context(project, base, rate_name="LR"),
        facts=told(project, run, framework="pytorch", grad_accum=run.accum, learning_rate=run.rate * scale),
        log="print_iter",
    )


def _options(project: Project, base: Setting, run: Setting) -> Program:
    """Options whose values are changed after parsing: presets, totals that are divided by ranks."""
    words = project.words

    def head(setting: Setting) -> str:
        if setting.gpus == 1 and base.gpus == 1:
            return _python(project)
        return f"torchrun --nproc_per_node={setting.gpus} {words['entry']}.py"

    extra = changed(
        base,
        run,
        {
            "epochs": "-e {}",
            "rate": f"--{words['rate'].replace('_', '-')} {{:g}}",
            "accum": "--accum {}",
            "seed": "--seed {}",
        },
    )
    if run.global_batch != base.global_batch:
        extra.append(f"-b {run.global_batch}")
    return launch(
        project,
        base,
        run,
        head,
        extra,
        files={f"{words['entry']}.py": "argparse/main.py.j2"},
        rate_name=f"a.{words['rate']}",
        facts=told(project, run, framework="pytorch", grad_accum=run.accum),
        log="print_meter",
        compiles=project.quirks["compiles"],
        unread=("--momentum2",),
    )


def _keras(project: Project, base: Setting, run: Setting) -> Program:
    """Constants at the top that are edited before each run."""
    listed = run.gpus > 1 and project.quirks["linear"]
    devices = "devices=[" + ", ".join(f'"/gpu:{i}"' for i in range(base.gpus)) + "]" if listed else ""
    hidden = () if listed or gpus_are_told(project) else ("num_gpus", "global_batch_size")
    return launch(
        project,
        base,
        run,
        lambda _: _python(project),
        [],
        files={f"{project.words['entry']}.py": "keras/main.py.j2"},
        devices=devices,
        facts=told(project, run, *hidden, framework="tensorflow"),
        log="keras_lines" if project.quirks["clever"] else "keras_bar",
        compiles=True,
    )


def _notebook(project: Project, base: Setting, run: Setting) -> Program:
    """A notebook, executed from the first cell to the last."""
    words = project.words
    book = f"{project.name}.ipynb"
    if project.quirks["clever"]:
        command = (
            f"jupyter nbconvert --to notebook --execute --ExecutePreprocessor.timeout=-1 --output done.ipynb {book}"
        )
    else:
        sets = changed(
            base,
            run,
            {
                "batch": f"-p {words['batch']} {{}}",
                "epochs": f"-p {words['epochs']} {{}}",
                "rate": f"-p {words['rate']} {{:g}}",
            },
        )
        command = " ".join(["papermill", book, f"out/{words['flavour']}.ipynb", *sets])
    return Program(
        command=command,
        files={book: "notebook/nb.py.j2"},
        context=context(project, base, rate_name=words["rate"]),
        facts=told(project, run, framework="pytorch"),
        log="papermill",
    )


_NUMBERS = frozenset({"epochs", "batch", "rate"})

PLAIN = (
    Style(
        "positional",
        _positional,
        images("vit_base_patch16_224"),
        _NUMBERS | {"gpus"},
        odds=1.4,
        launchers=("plain", "nohup", "srun", "sbatch"),
        widest=4,
        precisions=("fp32", "fp32", "amp-fp16"),
        stops_early=True,
    ),
    Style(
        "environment",
        _environment,
        (*images(), "bert-base-uncased", "dlrm"),
        _NUMBERS | {"gpus", "accum"},
        accumulates=True,
        precisions=("fp32", "bf16", "amp-fp16"),
    ),
    Style(
        "options",
        _options,
        (*images(), "bert-base-uncased", "roberta-large"),
        _NUMBERS | {"accum", "seed"},
        odds=1.5,
        launchers=("plain", "nohup", "srun", "sbatch"),
        accumulates=True,
        precisions=("fp32", "amp-fp16"),
    ),
    Style(
        "keras",
        _keras,
        ("small_cnn", "efficientnet_b0", "resnet50"),
        frozenset(),
        odds=0.8,
        launchers=("plain", "nohup", "sbatch"),
        widest=4,
        precisions=("fp32", "amp-fp16"),
        stops_early=True,
    ),
    Style(
        "notebook",
        _notebook,
        ("small_cnn", "resnet18", "efficientnet_b0", "bert-base-uncased", "schnet"),
        _NUMBERS,
        odds=0.8,
        widest=1,
        frozen_by="clever",
    ),
)
