"""Programs around language models: trainers that others wrote, configured by files and long command lines."""

from __future__ import annotations

from schedmate.workload_independent.settings import Program, Project, Setting
from schedmate.workload_independent.styles.base import (
    RATE_FACTORS,
    Style,
    changed,
    context,
    gpus_are_told,
    images,
    launch,
    number,
    told,
)

_SPEECH = "audio"


def _hf(project: Project, base: Setting, run: Setting) -> Program:
    """Hugging Face Trainer, values in a JSON file or as options."""
    words, clever = project.words, project.quirks["clever"]
    audio = project.dataset.kind == _SPEECH
    s2s = project.model.name in ("t5-base", "whisper-small")
    auto = {
        "t5-base": "AutoModelForSeq2SeqLM",
        "whisper-small": "AutoModelForSpeechSeq2Seq",
        "wav2vec2-base": "AutoModelForCTC",
    }
    if clever:
        # With a JSON file nothing else is read: another value means another file.
        extra = ["args.json"]
    else:
        extra = [
            f"--output_dir ckpt/{project.name}",
            f"--per_device_train_batch_size {run.batch}",
            f"--gradient_accumulation_steps {run.accum}",
            f"--learning_rate {number(run.rate)}",
            f"--num_train_epochs {run.epochs}" if run.steps is None else f"--max_steps {run.steps}",
            *([f"--dataloader_num_workers {run.workers}"] if run.workers else []),
            *([f"--max_len {run.length}"] if run.length else []),
            *({"bf16": ["--bf16"], "amp-fp16": ["--fp16", "True"]}.get(run.precision, [])),
        ]

    def head(setting: Setting) -> str:
        if setting.gpus == 1:
            return f"python {words['entry']}.py"
        tool = (
            "accelerate launch --multi_gpu --num_processes" if project.quirks["wandb"] else "torchrun --nproc_per_node"
        )
        return f"{tool} {setting.gpus} {words['entry']}.py"

    # Without a launcher the trainer takes all GPUs that it sees.
    hidden = ("num_gpus", "global_batch_size") if run.gpus == 1 and not gpus_are_told(project) else ()
    return launch(
        project,
        base,
        run,
        head,
        extra,
        files={
            f"{words['entry']}.py": "hf/main.py.j2",
            **({"args.json": "hf/args.json.j2"} if clever or project.quirks["leftovers"] else {}),
        },
        auto="AutoModelForSequenceClassification" if not s2s and not audio else auto[project.model.name],
        trainer="Seq2SeqTrainer" if s2s else "Trainer",
        facts=told(project, run, *hidden, grad_accum=run.accum, optimizer="adamw", workload_type="finetune"),
        log="hf_dicts",
    )


def _trl(project: Project, base: Setting, run: Setting) -> Program:
    """TRL's supervised fine-tuning from a recipe."""
    extra = changed(
        base,
        run,
        {
            "batch": "--per_device_train_batch_size {}",
            "accum": "--gradient_accumulation_steps {}",
            "epochs": "--num_train_epochs {}",
            "steps": "--max_steps {}",
            "rate": "--learning_rate {:g}",
        },
    )

    def head(setting: Setting) -> str:
        told_here = f" --num_processes {setting.gpus}" if project.quirks["clever"] else ""
        return f"accelerate launch --config_file accelerate.yaml{told_here} sft.py --config recipe.yaml"

    return launch(
        project,
        base,
        run,
        head,
        extra,
        files={
            "sft.py": "trl/main.py.j2",
            "recipe.yaml": "trl/recipe.yaml.j2",
            "accelerate.yaml": "trl/accelerate.yaml.j2",
        },
        facts=told(project, run, grad_accum=run.accum, workload_type="finetune"),
        log="hf_dicts",
    )


def _deepspeed(project: Project, base: Setting, run: Setting) -> Program:
    """DeepSpeed: the batch stands in its JSON, the length of the run in the program's options."""
    words = project.words
    extra = changed(base, run, {"epochs": f"--{words['epochs']} {{}}", "steps": f"--{words['steps']} {{}}"})
    told_gpus = f"GPUS={run.gpus} " if run.gpus != base.gpus else ""
    return Program(
        command=" ".join([f"{told_gpus}bash start.sh", *extra]),
        files={
            f"{words['entry']}.py": "deepspeed/main.py.j2",
            "ds.json": "deepspeed/ds.json.j2",
            "start.sh": "deepspeed/start.sh.j2",
        },
        context=context(project, base),
        facts=told(project, run, "workload_type", grad_accum=run.accum, optimizer="adamw"),
        log="deepspeed",
    )


def _megatron(project: Project, base: Setting, run: Setting) -> Program:
    """Megatron from a batch script that does its own arithmetic."""
    return Program(
        command="sbatch run.sbatch",
        files={"run.sbatch": "megatron/run.sbatch.j2", "pretrain_gpt.py": "megatron/pretrain_gpt.py.j2"},
        context=context(project, base),
        facts=told(project, run, grad_accum=run.accum, workload_type="train", optimizer="adam"),
        log="megatron",
    )


def _array(project: Project, base: Setting, run: Setting) -> Program:
    """One task of a Slurm array: the task's number chooses the value."""
    rates = [f"{base.rate * factor:g}" for factor in RATE_FACTORS]
    return Program(
        command=f"sbatch --array={rates.index(f'{run.rate:g}')} run.sbatch",
        files={f"{project.words['entry']}.py": "argparse/main.py.j2", "run.sbatch": "array/run.sbatch.j2"},
        context=context(project, base, rate_name=f"a.{project.words['rate']}", rates=rates),
        facts=told(project, run, framework="pytorch", grad_accum=run.accum),
        log="print_meter",
        compiles=project.quirks["compiles"],
        unread=("--momentum2",),
    )


LANGUAGE = (
    Style(
        "hf_trainer",
        _hf,
        ("bert-base-uncased", "roberta-large", "t5-base", "wav2vec2-base", "whisper-small"),
        frozenset({"epochs", "steps", "batch", "rate", "accum", "gpus"}),
        odds=1.6,
        launchers=("plain", "plain", "sbatch"),
        counts="either",
        steps=(1e3, 2e4),
        accumulates=True,
        precisions=("fp32", "bf16", "amp-fp16"),
        frozen_by="clever",
    ),
    Style(
        "trl_sft",
        _trl,
        ("Qwen2.5-1.5B", "Mistral-7B-v0.1"),
        frozenset({"epochs", "steps", "batch", "rate", "accum"}),
        odds=1.1,
        launchers=("plain", "sbatch"),
        counts="either",
        steps=(200, 6e3),
        accumulates=True,
        precisions=("bf16",),
    ),
    Style(
        "deepspeed_json",
        _deepspeed,
        ("gpt2", "gpt-1.3b", "llama-350m"),
        frozenset({"epochs", "steps"}),
        odds=1.0,
        counts="steps",
        steps=(1e3, 5e4),
        accumulates=True,
        precisions=("bf16", "amp-fp16"),
    ),
    Style(
        "megatron_bash",
        _megatron,
        ("gpt-1.3b", "llama-350m"),
        frozenset(),
        odds=0.8,
        widest=128,
        counts="steps",
        steps=(2e3, 1e5),
        accumulates=True,
        precisions=("bf16",),
    ),
    Style(
        "sbatch_array",
        _array,
        (*images("vit_base_patch16_224"), "bert-base-uncased"),
        frozenset({"rate"}),
        odds=0.9,
        widest=1,
        accumulates=True,
        precisions=("fp32", "amp-fp16"),
    ),
)
