"""Templates to text: launch commands and source trees."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from schedmate.demo.catalog import TEMPLATES
from schedmate.demo.jobs import Project

_CLASSES = {"imagenet": 1000, "cifar10": 10, "cifar100": 100, "food101": 101, "cityscapes": 19, "voc2012": 21}
_COLUMNS = {"squad": ["question", "context"], "mnli": ["premise", "hypothesis"], "cnn_dailymail": ["article"]}
_AUTO = {"squad": "AutoModelForQuestionAnswering", "mnli": "AutoModelForSequenceClassification"}
_KERAS = {"efficientnet_b0": "EfficientNetB0", "mobilenet_v2": "MobileNetV2"}


@cache
def environment() -> Environment:
    """The template environment; an undefined name is an error. Output is text files, never HTML, hence no escaping."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )


@cache
def _inline(text: str) -> Any:
    return environment().from_string(text)


def render(text: str, **values: Any) -> str:
    """Render a short template given as text."""
    return str(_inline(text).render(**values))


def context(project: Project) -> dict[str, Any]:
    """What every template of a tree may use."""
    return {
        "name": project.name,
        "user": project.user,
        "version": project.version,
        "model": project.model,
        "dataset": project.dataset,
        "hp": project.hyper,
        "workers": project.workers,
        "gpus": project.gpus,
        "nodes": project.nodes,
        "gpus_per_node": project.gpus_per_node,
        "word": project.words,
        "classes": _CLASSES.get(project.dataset, 1000),
        "columns": _COLUMNS.get(project.dataset, ["text"]),
        "auto_class": _AUTO.get(project.dataset, "AutoModelForSeq2SeqLM"),
        "keras_class": _KERAS.get(project.model.name, ""),
    }


def command_of(project: Project, overrides: dict[str, str], *, evaluation: bool = False) -> str:
    """The launch command with this run's overrides."""
    words = " ".join(
        render(project.style.overrides[key], value=value, word=project.words)
        for key, value in overrides.items()
        if key in project.style.overrides
    )
    template = project.style.evaluation_launch if evaluation else project.style.launch
    assert template is not None
    launchers = {"torch_launcher": _torchrun(project), "srun_launcher": _srun(project)}
    return " ".join(render(template, overrides=words, **launchers, **context(project)).split())


def tree_files(project: Project) -> dict[Path, str]:
    """The files of a project's tree, by relative path."""
    values = context(project)
    found = {}
    for path in sorted(project.style.folder.rglob("*.j2")):
        inner = path.relative_to(project.style.folder)
        target = Path(str(inner)[: -len(".j2")].replace("__name__", project.name))
        found[target] = environment().get_template(path.relative_to(TEMPLATES).as_posix()).render(**values)
    return found


def _torchrun(project: Project) -> str:
    if project.gpus == 1 and project.style.name != "yaml_config":
        return "python"
    if project.nodes == 1:
        return f"torchrun --standalone --nproc_per_node={project.gpus}"
    where = f"--nnodes={project.nodes} --nproc_per_node={project.gpus_per_node}"
    return f"srun torchrun {where} --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500"


def _srun(project: Project) -> str:
    if project.nodes == 1:
        return "python"
    return f"srun --nodes={project.nodes} --ntasks-per-node={project.gpus_per_node} python"
