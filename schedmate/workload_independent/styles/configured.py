"""Programs whose values stand in files of their own, which inherit, select and override one another."""

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


def _nested_yaml(project: Project, base: Setting, run: Setting) -> Program:
    """A file that inherits from another and is overridden by dotted words."""
    words, entry = project.words, project.words["entry"]
    extra = changed(
        base,
        run,
        {
            "batch": f"data.loader.{words['batch']}={{}}",
            "epochs": f"schedule.{words['epochs']}={{}}",
            "rate": f"optim.{words['rate']}={{:g}}",
            "accum": "optim.accumulate={}",
        },
    )
    return launch(
        project,
        base,
        run,
        lambda _: f"python {entry}.py -c exps/{words['flavour']}.yaml",
        extra,
        files={
            f"{entry}.py": "yaml/main.py.j2",
            "base.yaml": "yaml/base.yaml.j2",
            f"exps/{words['flavour']}.yaml": "yaml/exp.yaml.j2",
        },
        rate_name=f"o.{words['rate']}",
        facts=told(project, run, framework="pytorch", grad_accum=run.accum),
        log="info_lines",
    )


def _toml(project: Project, base: Setting, run: Setting) -> Program:
    """One file of settings with profiles, chosen by the launch."""
    words = project.words
    extra = [
        word
        for name, form in {"batch": "{}", "epochs": "{}", "steps": "{}"}.items()
        if getattr(run, name) != getattr(base, name)
        for word in [f"--{words[name].replace('_', '-')}={form.format(getattr(run, name))}"]
    ]
    if run.rate != base.rate:
        extra.append(f"--{words['rate'].replace('_', '-')}={number(run.rate)}")
    head = f"python {words['entry']}.py --profile={words['flavour']}"
    return launch(
        project,
        base,
        run,
        lambda _: head,
        extra,
        files={f"{words['entry']}.py": "toml/main.py.j2", "settings.toml": "toml/settings.toml.j2"},
        rate_name=f'S["{words["rate"]}"]',
        facts=told(project, run, framework="pytorch"),
        log="key_values",
    )


def _hydra(project: Project, base: Setting, run: Setting) -> Program:
    """Groups of configurations; several values make several runs one after the other."""
    words = project.words
    extra = changed(
        base,
        run,
        {"batch": f"data.{words['batch']}={{}}", "epochs": f"trainer.{words['epochs']}={{}}", "seed": "seed={}"},
    )
    if run.runs:
        extra += ["-m", "optim.lr=" + ",".join(number(rate) for rate in run.runs)]
    elif run.rate != base.rate:
        extra.append(f"optim.lr={number(run.rate)}")
    data = project.dataset.name.replace("-", "_")
    hidden = ("learning_rate", "epochs") if run.runs else ()
    return launch(
        project,
        base,
        run,
        lambda _: f"python {words['entry']}.py",
        extra,
        files={
            f"{words['entry']}.py": "hydra/main.py.j2",
            "conf/config.yaml": "hydra/config.yaml.j2",
            f"conf/data/{data}.yaml": "hydra/data.yaml.j2",
            f"conf/optim/{project.model.optimizer}.yaml": "hydra/optim.yaml.j2",
            "conf/optim/rmsprop.yaml": "hydra/other_optim.yaml.j2",
            "conf/trainer/default.yaml": "hydra/trainer.yaml.j2",
        },
        facts=told(project, run, *hidden, framework="pytorch"),
        log="hydra",
    )


def _lightning(project: Project, base: Setting, run: Setting) -> Program:
    """Lightning's own command line over a file."""
    words = project.words
    extra = changed(
        base,
        run,
        {
            "epochs": "--trainer.max_epochs={}",
            "batch": f"--data.{words['batch']} {{}}",
            "rate": f"--model.{words['rate'].lower()} {{:g}}",
            "accum": "--trainer.accumulate_grad_batches={}",
        },
    )

    head = f"python {words['entry']}.py fit --config configs/{words['flavour']}.yaml"
    return launch(
        project,
        base,
        run,
        lambda _: head,
        extra,
        files={
            f"{words['entry']}.py": "lightning/main.py.j2",
            f"configs/{words['flavour']}.yaml": "lightning/fit.yaml.j2",
        },
        facts=told(project, run, framework="pytorch-lightning", grad_accum=run.accum),
        log="lightning",
    )


def _flax(project: Project, base: Setting, run: Setting) -> Program:
    """JAX with a configuration that is a program itself."""
    words = project.words
    extra = changed(
        base, run, {"epochs": "--config.epochs={}", "steps": "--config.steps={}", "rate": "--config.base_lr={:g}"}
    )
    if run.batch * run.gpus != base.batch * base.gpus:
        extra.append(f"--config.batch={run.batch * run.gpus}")
    head = f"python {words['entry']}.py --config=configs/{words['flavour']}.py"
    hidden = () if gpus_are_told(project) else ("num_gpus", "batch_size_per_gpu")
    scale = run.batch * run.gpus / 256 if project.quirks["linear"] else 1
    return launch(
        project,
        base,
        run,
        lambda _: head,
        [*extra, f"--workdir=out/{project.name}"],
        files={
            f"{words['entry']}.py": "flax/main.py.j2",
            f"configs/{words['flavour']}.py": "flax/config.py.j2",
        },
        facts=told(project, run, *hidden, framework="jax", learning_rate=run.rate * scale),
        log="absl",
        compiles=True,
    )


def _mm(project: Project, base: Setting, run: Setting) -> Program:
    """Configurations that extend one another, started by a script for several GPUs."""
    words = project.words
    config = f"configs/{words['flavour']}/{project.model.name}_{project.dataset.name}.py"
    extra = changed(
        base,
        run,
        {
            "batch": "train_dataloader.batch_size={}",
            "epochs": "train_cfg.max_epochs={}",
            "rate": "optim_wrapper.optimizer.lr={:g}",
        },
    )
    amp = ["--amp"] if run.precision == "amp-fp16" else []
    options = ["--cfg-options", *extra] if extra else []
    head = f"bash tools/dist_train.sh {config} {run.gpus}" if run.gpus > 1 else f"python tools/train.py {config}"
    common = "configs/_base_"
    return Program(
        command=" ".join([head, *amp, *options]),
        files={
            "tools/train.py": "mm/train.py.j2",
            "tools/dist_train.sh": "mm/dist_train.sh.j2",
            config: "mm/config.py.j2",
            f"{common}/schedule.py": "mm/schedule.py.j2",
            f"{common}/default_runtime.py": "mm/runtime.py.j2",
            f"{common}/{project.dataset.name}.py": "mm/data.py.j2",
            f"{common}/{project.model.name}.py": "mm/model.py.j2",
        },
        context=context(project, base),
        facts=told(project, run, **({"grad_accum": run.accum} if run.accum > 1 else {})),
        log="mmengine",
    )


def _make(project: Project, base: Setting, run: Setting) -> Program:
    """A makefile that computes the words of the launch."""
    extra = changed(base, run, {"epochs": "EPOCHS={}", "rate": "LR={:g}", "batch": "PERGPU={}"})
    return Program(
        command=" ".join(["make", "train", *extra]),
        files={f"{project.words['entry']}.py": "make/main.py.j2", "Makefile": "make/Makefile.j2"},
        context=context(project, base, rate_name=f"opt_.{project.words['rate']}"),
        facts=told(project, run, framework="pytorch"),
        log="tqdm",
    )


_NUMBERS = frozenset({"epochs", "batch", "rate"})

CONFIGURED = (
    Style(
        "nested_yaml",
        _nested_yaml,
        (*images(), "unet", "schnet"),
        _NUMBERS | {"accum"},
        odds=1.3,
        widest=1,
        launchers=("plain", "srun", "sbatch"),
        accumulates=True,
        stops_early=True,
    ),
    Style(
        "toml_profiles",
        _toml,
        ("small_cnn", "resnet18", "schnet", "bert-base-uncased", "efficientnet_b0"),
        _NUMBERS | {"steps"},
        odds=0.7,
        widest=1,
        launchers=("plain", "sbatch"),
        counts="either",
    ),
    Style(
        "hydra",
        _hydra,
        (*images(), "unet", "schnet"),
        _NUMBERS | {"seed", "runs"},
        odds=1.2,
        widest=1,
        launchers=("plain", "srun", "sbatch"),
    ),
    Style(
        "lightning_cli",
        _lightning,
        ("unet", "deeplabv3_r50", "convnext_tiny", "resnet50", "schnet"),
        _NUMBERS | {"accum"},
        odds=1.2,
        accumulates=True,
        precisions=("fp32", "bf16", "amp-fp16"),
        stops_early=True,
    ),
    Style(
        "flax",
        _flax,
        ("resnet18", "resnet50"),
        _NUMBERS | {"steps"},
        odds=0.9,
        launchers=("plain", "srun", "sbatch"),
        counts="either",
        precisions=("fp32", "bf16"),
        steps=(5e3, 1e5),
    ),
    Style(
        "mmengine",
        _mm,
        ("retinanet_r50", "deeplabv3_r50"),
        _NUMBERS | {"gpus"},
        odds=0.8,
        precisions=("fp32", "amp-fp16"),
    ),
    Style("makefile", _make, (*images(), "dlrm"), _NUMBERS, odds=0.7, precisions=("fp32", "bf16")),
)
