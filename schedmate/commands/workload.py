"""`schedmate workload`: synthetic jobs as real programs, to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from prompts.errors import UserError
from schedmate.console import out, print_json, progress, safe

if TYPE_CHECKING:
    from schedmate.workload import Generator, WorkloadSpec

_LOAD = 0.95

app = typer.Typer(no_args_is_help=True, help="Synthetic jobs as real programs, to try things on.")


@app.callback()
def _workload() -> None:
    """Synthetic jobs as real programs, to try things on."""


@app.command()
def generate(
    folder: Annotated[Path, typer.Option("--out", help="Folder to write to; only its own files are replaced.")],
    jobs: Annotated[int, typer.Option(help="Jobs to generate.", min=1, max=1_000_000)] = 400,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.", min=0)] = 1,
    users: Annotated[int, typer.Option(help="Users who submit them.", min=1, max=5_000)] = 24,
    days: Annotated[
        float | None, typer.Option(help="Length of the arrival window; instead of --load.", min=0.05, max=3650)
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(help=f"GPU time asked for over GPU time offered while jobs arrive ({_LOAD}).", min=0.01, max=10),
    ] = None,
    nodes: Annotated[int, typer.Option(help="Nodes of the cluster, 8 GPUs each.", min=1, max=10_000)] = 16,
    profile: Annotated[
        str, typer.Option(help="Published shares of outcomes and sizes: philly, helios or acme.")
    ] = "philly",
    generator: Annotated[
        str, typer.Option(help="Whose idea of jobs: semantic, or independent: by another author, for a second opinion.")
    ] = "semantic",
    trees: Annotated[bool, typer.Option("--trees/--no-trees", help="Write the source trees.")] = True,
    logs: Annotated[bool, typer.Option("--logs/--no-logs", help="Write the jobs' logs.")] = False,
    json_: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Generate users, their programs, their jobs, and how these end; docs/workload.md says what is modelled.

    Everything is synthetic and says so. truth.jsonl is for scoring only.

    Example: schedmate workload generate --jobs 1000 --seed 7 --out synthetic
    """
    from schedmate.workload import ClusterSpec, WorkloadSpec
    from schedmate.workload.folder import OutFolder
    from schedmate.workload.params import profile_named
    from schedmate.workload.writer import write_workload

    profile_named(profile)
    if days is not None and load is not None:
        raise UserError("both --days and --load were given", "give one of them: the other follows from the jobs")
    spec = WorkloadSpec(
        seed=seed,
        jobs=jobs,
        users=users,
        days=days,
        load=_LOAD if load is None else load,
        profile=profile,
        cluster=ClusterSpec(nodes=nodes),
    )
    source = _generator(generator, spec)
    written = OutFolder(folder, "workload")
    try:
        with progress("writing jobs", jobs) as advance:
            described = write_workload(source, written, with_trees=trees, with_logs=logs, advance=advance)
    finally:
        written.close()
    result = {**described, "folder": str(folder)}
    if json_:
        print_json(result)
        return
    _tell(result)


def _generator(name: str, spec: WorkloadSpec) -> Generator[Any]:
    from schedmate.workload import SemanticGenerator
    from schedmate.workload_independent import IndependentGenerator

    known = {made.name: made for made in (SemanticGenerator, IndependentGenerator)}
    if name not in known:
        raise UserError(f"there is no generator {name!r}", f"one of: {', '.join(known)}")
    made: Generator[Any] = known[name](spec)
    return made


def _tell(result: dict[str, Any]) -> None:
    from schedmate.workload.writer import TRACE

    console, days = out(), result["span_s"] / 86_400
    ends = ", ".join(f"{count} {outcome}" for outcome, count in result["outcomes"].items())
    console.print(
        f"Synthetic: {result['jobs']:,} jobs of {result['users']} users in {days:.1f} days, load {result['load']:.2f} "
        f"on {result['cluster']['nodes']} x {result['cluster']['gpus_per_node']} GPUs; {ends}",
        soft_wrap=True,
    )
    if result["source_trees"]:
        console.print(f"{result['source_trees']:,} source trees in {len(result['styles'])} styles")
    folder = safe(result["folder"])
    nodes = result["cluster"]["nodes"]
    console.print(
        f"Replay them: schedmate simulate {folder}/{TRACE} --nodes {nodes} --policy fifo,easy,kant", soft_wrap=True
    )


def register(parent: typer.Typer) -> None:
    """Add this command to the command line."""
    parent.add_typer(app, name="workload")
