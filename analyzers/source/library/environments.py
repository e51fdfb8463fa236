"""Environments that reinforcement learning runs side by side: each is made by a function of the program."""

from __future__ import annotations

from analyzers.source.program.expressions import known_items
from analyzers.source.program.native import Arguments, models
from analyzers.source.program.values import Func, Partial, Seq, Val

_VECTORS = ("SyncVectorEnv", "AsyncVectorEnv", "SubprocVecEnv", "DummyVecEnv", "ShmemVecEnv")
_HOMES = (
    "gym.vector", "gymnasium.vector", "stable_baselines3.common.vec_env", "baselines.common.vec_env",
    "gymnasium.experimental.vector",
    "stable_baselines3.common.vec_env.subproc_vec_env", "stable_baselines3.common.vec_env.dummy_vec_env",
    "baselines.common.vec_env.subproc_vec_env", "baselines.common.vec_env.dummy_vec_env", "tianshou.env",
)  # fmt: skip


@models(*(f"{home}.{name}" for home in _HOMES for name in _VECTORS))
def _vector(a: Arguments) -> Val | None:
    """All are made alike: the first stands for them."""
    given = a.get(0, "env_fns")
    items = given.items if isinstance(given, Seq) else known_items(given) if given is not None else None
    first = items[0] if items else None
    if isinstance(first, Func | Partial):
        a.machine.call(first, [], {}, a.origin)
    return None
