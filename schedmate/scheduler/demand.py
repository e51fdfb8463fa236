"""What a gang asks of a cluster, as one value shared by all jobs that ask for the same."""

from __future__ import annotations


class Demand:
    """What must be found on a pool for a gang to start. Made by `Demand.plain` only, one object a value.

    Equal demands are the same object, so they are compared and hashed by identity, which is what caches of verdicts
    want. ``gpus``: whole GPUs over all nodes.
    """

    __slots__ = ("gpus",)

    gpus: int

    _plain: dict[int, Demand] = {}  # noqa: RUF012

    @classmethod
    def plain(cls, gpus: int) -> Demand:
        """``gpus`` GPUs packed on as few nodes as hold them, and nothing else. Raises ``ValueError`` below 1."""
        found = cls._plain.get(gpus)
        if found is None:
            if gpus < 1:
                raise ValueError(f"a demand of {gpus} GPUs")
            found = cls._plain[gpus] = cls.__new__(cls)
            found.gpus = gpus
        return found

    def __reduce__(self) -> tuple[object, ...]:
        return Demand.plain, (self.gpus,)

    def __repr__(self) -> str:
        return f"Demand.plain({self.gpus})"
