"""What a gang asks of a cluster, as one value shared by all jobs that ask for the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, get_type_hints
from weakref import WeakValueDictionary

from schedmate.scheduler.cluster_types import WHOLE_MILLI
from schedmate.scheduler.topology import LEVELS


@dataclass(frozen=True, slots=True)
class Role:
    """``replicas`` equal workers, each on one node with all that is named here.

    Either ``gpus`` whole GPUs, or ``milli_gpu`` thousandths or the slice ``profile`` of one GPU (with
    ``gpu_memory_mib`` of its memory where given), or no GPU at all. ``nics`` are taken whole. With ``min_replicas`` the
    role is elastic: the gang may start with fewer. ``ValueError`` for amounts that make no sense.
    """

    name: str = "worker"
    replicas: int = 1
    gpus: int = 0
    milli_gpu: int = 0
    profile: str | None = None
    gpu_memory_mib: int = 0
    nics: int = 0
    cpus_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0
    min_replicas: int | None = None

    def __post_init__(self) -> None:
        amounts = (self.gpus, self.milli_gpu, self.gpu_memory_mib, self.nics)
        if min(*amounts, self.cpus_milli, self.memory_mib, self.disk_mib) < 0:
            raise ValueError(f"role {self.name!r} asks for a negative amount")
        if self.replicas < 1 or not 0 <= self.least_replicas <= self.replicas:
            raise ValueError(f"role {self.name!r} has {self.replicas} replicas, at least {self.least_replicas}")
        if (self.gpus > 0) + (self.milli_gpu > 0) + (self.profile is not None) > 1:
            raise ValueError(f"role {self.name!r} asks for whole GPUs and a part of one; split it into two roles")
        if self.nics and not self.gpus:
            raise ValueError(f"role {self.name!r} asks for NICs but for no whole GPU")
        if self.milli_gpu >= WHOLE_MILLI:
            raise ValueError(f"role {self.name!r} asks for {self.milli_gpu} milli of one GPU; ask for whole GPUs")

    def fewer(self, replicas: int) -> Role:
        """The same with so many replicas, which all have to run."""
        return replace(self, replicas=replicas, min_replicas=None)

    @property
    def least_replicas(self) -> int:
        """Replicas without which the gang does not start."""
        return self.replicas if self.min_replicas is None else self.min_replicas


class Leaning(NamedTuple):
    """Hints about one job that lead the choice among placements and never decide whether there is one.

    ``end_s``: when it is expected to end, on the caller's clock. ``fleeting``: it is likely to be short or to fail, so
    it should not break up groups of nodes that are free as a whole.
    """

    end_s: float | None = None
    fleeting: bool = False


NO_LEANING = Leaning()


class _Terms(NamedTuple):
    """All that tells one demand from another."""

    roles: tuple[Role, ...] = ()
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    level: str | None = None
    required: bool = False
    selector: frozenset[tuple[str, str]] = frozenset()
    tolerations: frozenset[str] = frozenset()
    zone: str | None = None
    heavy: bool = False
    spread: bool = False
    shareable: bool = False


class Demand:
    """What must be found on a pool for a gang to start. Made by `Demand.plain` and `Demand.of`, one object a value.

    Equal demands are the same object, so they are compared and hashed by identity, which is what caches of verdicts
    want. ``gpus`` are the whole GPUs over all replicas, ``least_gpus`` those without which the gang does not start;
    ``gpu_milli`` and ``least_milli`` count the parts as well (not slices, whose size only the pool knows); ``whole``:
    shares for it always count ``gpu_milli``. ``roles`` is empty for ``gpus`` packed on as few nodes as hold them.
    """

    __slots__ = (
        "__weakref__", "_terms", "anywhere", "elastic", "gpu_milli", "gpu_types", "gpus", "heavy", "is_plain",
        "least_gpus", "least_milli", "level", "required", "roles", "selector", "shareable", "spread", "tolerations",
        "whole", "zone",
    )  # fmt: skip

    _plain: ClassVar[dict[int, Demand]] = {}
    _made: ClassVar[WeakValueDictionary[_Terms, Demand]] = WeakValueDictionary()

    @classmethod
    def plain(cls, gpus: int) -> Demand:
        """``gpus`` GPUs packed on as few nodes as hold them, and nothing else. Raises ``ValueError`` below 1."""
        found = cls._plain.get(gpus)
        if found is None:
            if gpus < 1:
                raise ValueError(f"a demand of {gpus} GPUs")
            found = cls._plain[gpus] = cls(_Terms(gpus=gpus))
        return found

    @classmethod
    def of(
        cls,
        roles: tuple[Role, ...] = (),
        *,
        gpus: int = 0,
        gpu_types: tuple[str, ...] = (),
        level: str | None = None,
        required: bool = False,
        selector: frozenset[tuple[str, str]] = frozenset(),
        tolerations: frozenset[str] = frozenset(),
        zone: str | None = None,
        heavy: bool = False,
        spread: bool = False,
        shareable: bool = False,
    ) -> Demand:
        """A demand of several ``roles``, or of ``gpus`` packed GPUs, with conditions. ``ValueError`` for nonsense.

        Parameters
        ----------
        gpu_types : acceptable pools in order of preference; empty for any.
        level : the gang is kept inside one group of this level (`topology.LEVELS`) if ``required``, else if possible.
        selector : labels that every node used must have. tolerations : taints that it may have.
        zone : use the nodes of this dedicated zone only. spread : in that zone, on the emptiest nodes.
        heavy : replicas talk so much that a tighter group is worth more than a fuller one.
        shareable : may share a GPU with others; without it a part of a GPU takes the whole.
        """
        if bool(roles) == (gpus > 0):
            raise ValueError("a demand asks either for roles or for at least one GPU")
        if roles and not any(role.least_replicas for role in roles):
            raise ValueError("a gang may not start with no replica at all")
        if level is not None and level not in LEVELS:
            raise ValueError(f"no topology level {level!r}; there are {', '.join(LEVELS)}")
        if spread and zone is None:
            raise ValueError("replicas are spread inside a dedicated zone only: name it")
        if spread and level is not None:
            raise ValueError("replicas are either spread or kept together")
        terms = _Terms(
            roles, gpus, gpu_types, level, required, selector, tolerations, zone, heavy, spread, shareable
        )  # fmt: skip
        if terms == _Terms(gpus=gpus):
            return cls.plain(gpus)
        found = cls._made.get(terms)
        if found is None:
            found = cls._made[terms] = cls(terms)
        return found

    def __init__(self, terms: _Terms) -> None:
        self._terms = terms
        self.roles, self.gpu_types, self.level, self.required = (
            terms.roles,
            terms.gpu_types,
            terms.level,
            terms.required,
        )
        self.selector, self.tolerations, self.zone = terms.selector, terms.tolerations, terms.zone
        self.heavy, self.spread, self.shareable = terms.heavy, terms.spread, terms.shareable
        self.gpus = sum(self.whole_gpus(role) * role.replicas for role in terms.roles) if terms.roles else terms.gpus
        least = sum(self.whole_gpus(role) * role.least_replicas for role in terms.roles)
        self.least_gpus = least if terms.roles else terms.gpus
        parts = sum(role.milli_gpu * role.replicas for role in terms.roles) if terms.shareable else 0
        self.gpu_milli = self.gpus * WHOLE_MILLI + parts
        least = sum(role.milli_gpu * role.least_replicas for role in terms.roles) if terms.shareable else 0
        self.least_milli = self.least_gpus * WHOLE_MILLI + least
        self.is_plain = terms == _Terms(gpus=terms.gpus)
        self.elastic = any(role.least_replicas < role.replicas for role in terms.roles)
        self.whole = not self.elastic and not any(role.milli_gpu or role.profile for role in terms.roles)
        self.anywhere = not (terms.selector or terms.tolerations or terms.zone)

    def whole_gpus(self, role: Role) -> int:
        """Whole GPUs that a replica takes: a part of one counts as a whole where it is not shared."""
        return 1 if role.milli_gpu and not self.shareable else role.gpus

    def asked(self) -> dict[str, Any]:
        """What tells it from a demand that asks for nothing, as `Demand.of` names it."""
        default = _Terms()._asdict()
        return {key: value for key, value in self._terms._asdict().items() if value != default[key]}

    @staticmethod
    def asked_kinds() -> dict[str, Any]:
        """The types of all that `Demand.of` takes."""
        return get_type_hints(_Terms)

    def __reduce__(self) -> tuple[object, ...]:
        return _again, tuple(self._terms)

    def __repr__(self) -> str:
        return f"Demand({', '.join(f'{key}={value!r}' for key, value in self.asked().items())})"


def _again(*terms: Any) -> Demand:
    return Demand.of(**_Terms(*terms)._asdict())
