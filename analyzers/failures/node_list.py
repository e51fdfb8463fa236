"""Places ranks by the scheduler's node list: launchers fill the nodes in its order, the same number on each."""

from __future__ import annotations

import re
from itertools import islice

from analyzers.failures.topology import Topology, same_node

_LIST = re.compile(
    r"\bSLURM_(?:JOB_|STEP_)?NODELIST[=: ]{1,2}[\"']?([A-Za-z][\w.,\[\]-]{1,2000})"
    r"|\b(?:[Nn]ode ?list|[Hh]ostlist|NodeList)[=: ]{1,2}[\"']?([A-Za-z][\w.,\[\]-]{1,2000})"
    r"|\bjob \d+ .{0,40}\bnodes[= ]([A-Za-z][\w.\[\]-]*[,\[][\w.,\[\]-]{1,2000})"
    r"|\b(?:hosts|on) ([A-Za-z][\w.-]*\[[\d,-]{1,200}\])"
)
_WORLD = re.compile(r"\b(?:nranks|nRanks|world[ _-]?size|WORLD_SIZE)\b[=: ]{1,2}(\d{1,6})\b")
_ITEM = re.compile(r"([A-Za-z][\w.-]*?)\[([\d,-]{1,200})\]([\w.-]*)|([A-Za-z][\w.-]*)")
_MOST_NODES = 20_000


def learn_nodes(text: str, topology: Topology) -> None:
    """Remember the node list and the number of ranks that a line states; the first of each counts."""
    if not topology.node_list and (found := _LIST.search(text)):
        topology.node_list = expand(next(group for group in found.groups() if group))
    if not topology.world and (world := _WORLD.search(text)):
        topology.world = int(world[1])


def expand(written: str) -> tuple[str, ...]:
    """The nodes of a Slurm host list (``n[01-03,7],login1``), in its order."""
    return tuple(islice(_expanded(written), _MOST_NODES))


def _expanded(written: str) -> list[str]:
    names: list[str] = []
    for stem, numbers, tail, plain in _ITEM.findall(written):
        if plain:
            names.append(plain)
            continue
        for part in numbers.split(","):
            first, dash, last = part.partition("-")
            if not first.isdigit() or (dash and not last.isdigit()):
                continue
            end = int(last) if dash else int(first)
            for number in range(int(first), min(end, int(first) + _MOST_NODES) + 1):
                names.append(f"{stem}{number:0{len(first)}d}{tail}")
            if len(names) > _MOST_NODES:
                return names
    return names


def place_by_list(topology: Topology) -> None:
    """Give the ranks whose node nobody told the one that the list's order gives them, unless what is known differs."""
    nodes, world = topology.node_list, topology.world
    if len(nodes) < 2 or world < len(nodes) or world % len(nodes):
        return
    per_node = world // len(nodes)
    for rank, node in topology.node_of_rank.items():
        if rank >= world or not same_node(nodes[rank // per_node], node):
            return
    for rank in topology.ranks - set(topology.node_of_rank):
        if rank < world:
            topology.place(rank, nodes[rank // per_node])
