"""Results of `schedmate llm eval --json` as the Markdown tables of docs/results.md.

Each argument is ``TITLE=FILE``: what was evaluated, in words, and the JSON object that the command printed.

Example: python -m benchmarks.llm_table "30 jobs, model M=jobs.json" "28 logs, model M=logs.json"
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

_CHANGES = ("added_right", "added_wrong", "mended", "broken", "added_unjudged")
_REASONS = 5


def tables(results: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Gain and harm, cost, ways of asking, and what was turned down, a table each."""
    parts = (_gain(results), _cost(results), _rungs(results), _reasons(results))
    return "\n\n".join(part for part in parts if part)


def _gain(results: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    heads = [
        "run", "set", "cases", "labelled", "precision %: without", "with", "recall %: without", "with", "added right",
        "added wrong", "mended", "broken", "can not be judged", "verdict",
    ]  # fmt: skip
    rows = []
    for title, result in results:
        for kind in ("jobs", "logs"):
            found = result[kind]
            if found is None:
                continue
            lines = [({"jobs": "all facts", "logs": "category"}[kind], found["total"], found["verdict"])]
            for line in found["by_name"]:
                if line["name"] != "category" and line["changes"] and any(line["changes"].values()):
                    lines.append((line["name"], line, ""))
            for name, line, verdict in lines:
                after, changed = line["with_model"] or {}, line["changes"] or {}
                shares = [
                    _percent(each.get(share)) for share in ("precision", "recall") for each in (line["without"], after)
                ]
                counts = [changed.get(change, "") for change in _CHANGES]
                told = (verdict or "").replace("_", " ")
                rows.append([title, f"{kind}: {name}", found["cases"], line["wanted"], *shares, *counts, told])
    return _markdown(heads, rows)


def _cost(results: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    heads = [
        "run", "questions", "usable", "kept from before", "not usable", "endpoint failed", "not sent", "median s",
        "p95 s", "longer than a prediction waits", "tokens sent", "received", "cost",
    ]  # fmt: skip
    names = ("asked", "accepted", "cached", "not_accepted", "endpoint_failures", "not_asked")
    rows = []
    for title, result in results:
        asked = result["questions"]
        rows.append(
            [
                title,
                *(f"{asked[name]:,}" for name in names),
                *("" if asked[name] is None else f"{asked[name]:.1f}" for name in ("seconds_median", "seconds_p95")),
                asked["slower_than_wait"],
                f"{asked['tokens_sent']:,}",
                f"{asked['tokens_received']:,}",
                f"{asked['cost']:.4g}",
            ]
        )
    return _markdown(heads, rows)


def _rungs(results: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    rows = []
    for title, result in results:
        for each in result["questions"]["by_rung"]:
            if each["requests"]:
                tokens = (f"{each['tokens_sent']:,}", f"{each['tokens_received']:,}")
                rows.append(
                    [title, each["rung"], each["requests"], each["accepted"], f"{each['seconds']:.1f}", *tokens]
                )
    return _markdown(["run", "asked by", "requests", "accepted", "s in all", "tokens sent", "received"], rows)


def _reasons(results: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    rows = [[title, each["why"], each["count"]] for title, result in results for each in result["rejected"][:_REASONS]]
    return _markdown(["run", "why not used", "times"], rows)


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return ""
    return "\n".join(map(_line, [heads, ["---"] * len(heads), *rows]))


def _line(cells: Iterable[Any]) -> str:
    return "| " + " | ".join(" ".join(str(cell).replace("|", "\\|").split()) for cell in cells) + " |"


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.1f}"


def main(words: Sequence[str] | None = None) -> int:
    """Print the tables; exit code 2 for what is no result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", metavar="TITLE=FILE")
    results = []
    for word in parser.parse_args(words).results:
        title, _, path = word.rpartition("=")
        try:
            results.append((title or Path(path).stem, json.loads(Path(path).read_text(encoding="utf-8"))))
        except (OSError, ValueError) as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
    print(tables(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
