"""Users, their projects, and what these are usually set to. Drawn by key: nothing is kept but what is asked for."""

from __future__ import annotations

import bisect
from dataclasses import dataclass, replace
from itertools import accumulate

from schedmate.workload_independent.draws import Draw
from schedmate.workload_independent.physics import Machines
from schedmate.workload_independent.settings import Project, Setting
from schedmate.workload_independent.styles import CHORES, STYLES
from schedmate.workload_independent.tables import Model, tables

_FIRST = [
    "adaeze",
    "anders",
    "anjali",
    "bence",
    "camila",
    "dario",
    "edith",
    "farid",
    "greta",
    "haruto",
    "ines",
    "jonas",
    "kirsti",
    "lucia",
    "mateus",
    "nadia",
    "okan",
    "petra",
    "quentin",
    "rania",
    "sven",
    "tomoko",
    "ulrike",
    "vikram",
    "wen",
    "ximena",
    "yusuf",
    "zofia",
]
_LAB = [
    "nlp-lab",
    "perception",
    "bioinfo",
    "robotics-ml",
    "speech-group",
    "recsys",
    "climate",
    "medimg",
    "generative",
    "theory",
]


@dataclass(frozen=True, slots=True)
class User:
    """A user with lasting habits. ``patience`` stretches how long they train, ``care`` lowers how often they fail."""

    name: str
    tenant: str
    patience: float
    carelessness: float
    default_limit_s: float
    padding: float
    takes_default: bool
    projects: int


class People:
    """All users of a cluster; the few busy ones come up most."""

    def __init__(self, seed: int, users: int, profile: str, machines: Machines) -> None:
        self._seed, self._machines = seed, machines
        numbers = tables().numbers
        self._habits = numbers["users"]
        self._widths: dict[int, float] = {
            int(gpus): odds for gpus, odds in numbers["widths"][profile].items() if int(gpus) <= machines.spec.gpus
        }
        self._busy = list(accumulate((rank + 1) ** -float(self._habits["activity_zipf"]) for rank in range(users)))

    def someone(self, draw: Draw) -> User:
        """Who hands something in."""
        return self.user(bisect.bisect(self._busy, draw.between(0, self._busy[-1])))

    def user(self, number: int) -> User:
        """The user of this number."""
        habits, draw = self._habits, Draw(self._seed, "user", number)
        return User(
            name=f"{_FIRST[number % len(_FIRST)]}{'' if number < len(_FIRST) else number // len(_FIRST) + 1}",
            tenant=draw.one(_LAB),
            patience=draw.scatter(habits["patience_sigma"]),
            carelessness=draw.scatter(habits["carelessness_sigma"]),
            default_limit_s=3600.0 * draw.one(habits["default_limits_h"]),
            padding=draw.log_between(*habits["limit_padding"]),
            takes_default=draw.chance(habits["uses_default_limit"]),
            projects=draw.whole(*habits["projects"]),
        )

    def project(self, user: User, number: int, *, chore: bool = False) -> Project:
        """A user's project of this number. ``chore``: evaluation, inference or preparing data instead of training."""
        draw = Draw(self._seed, "project", user.name, number, chore)
        known = tables()
        styles = CHORES if chore else STYLES
        style = styles[draw.weighted({name: style.odds for name, style in styles.items()})]
        model = known.models[draw.one(style.models)]
        dataset = known.datasets[draw.one(model.sets)]
        words = {name: draw.one(options) for name, options in _WORDS.items()}
        stem = draw.one((dataset.name.split("_")[0], model.name.split("_")[0], f"{dataset.name}-{words['flavour']}"))
        return Project(
            user=user.name,
            tenant=user.tenant,
            name=f"{stem.lower().replace('.', '')}{'-' + style.suffix if style.suffix else ''}{number or ''}",
            style=style.name,
            model=model,
            dataset=dataset,
            key=f"{user.name}/{number}/{chore}",
            words=words,
            quirks={name: draw.chance(share) for name, share in _QUIRKS.items()},
            launcher=draw.one(style.launchers),
        )

    def usual(self, user: User, project: Project) -> Setting:
        """What a project is set to when its user has not changed anything yet: something that fits the GPU."""
        draw = Draw(self._seed, "usual", project.key)
        model, style = project.model, (STYLES | CHORES)[project.style]
        gpus = self._width(draw, model, style.widest)
        nodes = max(1, -(-gpus // self._machines.spec.gpus_per_node))
        steps = None
        epochs: int | None = max(1, round(draw.one(model.epochs) * min(2.0, max(0.3, user.patience))))
        if style.counts == "steps" or (style.counts == "either" and draw.chance(0.4)):
            steps, epochs = _round_steps(draw.log_between(*style.steps) * user.patience), None
        setting = Setting(
            gpus=gpus,
            nodes=nodes,
            batch=draw.one(model.batches),
            accum=draw.one((1, 2, 4, 8)) if style.accumulates and draw.chance(0.6) else 1,
            epochs=epochs,
            steps=steps,
            rate=draw.one(model.rates),
            precision=draw.one(style.precisions),
            workers=draw.one(tables().numbers["input"]["workers"]),
            length=draw.one((project.dataset.side, max(128, project.dataset.side // 2))) if model.is_language else None,
            patience=draw.whole(3, 15) if style.stops_early and draw.chance(0.3) else None,
            seed=draw.one((0, 1, 42, 1234, 3407)),
        )
        return self.shrunk(project, setting)

    def shrunk(self, project: Project, setting: Setting) -> Setting:
        """The setting with a batch that fits, as found by its user before."""
        while setting.batch > 1 and not self._machines.fits(project, setting):
            setting = replace(setting, batch=setting.batch // 2)
        return setting

    def _width(self, draw: Draw, model: Model, widest: int) -> int:
        gpus = draw.weighted(self._widths)
        if model.params > 3e8 and gpus < 4 and not model.adapter:
            gpus = draw.one((4, 8))
        return min(gpus, widest, self._machines.spec.gpus)


def _round_steps(steps: float) -> int:
    """Two leading digits: nobody trains for 48,317 steps."""
    size = 10 ** max(0, len(str(int(steps))) - 2)
    return int(max(10, round(steps / size) * size))


_WORDS = {
    "batch": ("bs", "batch_size", "batch", "train_bs", "bsz", "per_gpu_batch", "B"),
    "epochs": ("epochs", "n_epochs", "num_epochs", "max_epoch", "ep"),
    "rate": ("lr", "learning_rate", "base_lr", "LR0"),
    "workers": ("workers", "num_workers", "n_cpu", "nw"),
    "steps": ("max_steps", "total_steps", "num_iters", "train_steps"),
    "flavour": ("baseline", "abl", "new", "final", "rerun", "paper", "tmp", "v2"),
    "entry": ("train", "main", "run", "fit", "go", "experiment"),
}
_QUIRKS = {
    "lies": 0.35,  # a comment or a README that states other values
    "dead": 0.5,  # functions that nobody calls, old settings in comments
    "leftovers": 0.55,  # configurations that are not used
    "compiles": 0.25,
    "linear": 0.3,  # learning rate times the number of GPUs
    "wandb": 0.4,
    "clever": 0.3,  # reads its values in a roundabout way
}
