"""`schedmate compare` and the report: what is shown is what the documents say, and what they lack is named."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from analyzers.types import JobRecord
from prompts.errors import UserError
from schedmate.comparison.axes import first_moment, time_axis, time_name
from schedmate.comparison.collect import replays
from schedmate.comparison.document import check_document, read_document
from schedmate.comparison.page import lede, longer_waits, page
from schedmate.comparison.runs import Run, differences, equal_by_chance, jct_ratios, runs_of, same_jobs
from schedmate.comparison.table import metric_rows, summary_rows
from schedmate.console import plain
from schedmate.durations import short_duration
from schedmate.knowledge import estimates_named
from schedmate.scheduler import ClusterSpec
from schedmate.simulator import Conditions, Requested, simulate
from schedmate.simulator.shake import shaken

ROOT = Path(__file__).resolve().parents[3]


def document(policies=("fifo", "easy"), jobs: int = 150, nodes: int = 3, seeds=(1, 2, 3), detailed=True, **more):
    records = [
        JobRecord(str(i), 60.0 * i, 300.0 + 400 * (i % 5), (1, 4, 8, 2)[i % 4], user=f"<u{i % 3}>", requested_s=4000.0)
        for i in range(jobs)
    ]
    cluster = ClusterSpec.uniform(nodes, 8)
    found = {
        name: replays(records, cluster, name, lambda: estimates_named("requested"), seeds=seeds, detailed=detailed)[1]
        for name in policies
    }
    pools = [{"name": "gpu", "nodes": nodes, "gpus_per_node": 8}]
    return plain(
        {
            "trace": "jobs.csv",
            "rows": jobs,
            "rows_skipped": {},
            "cluster": {"nodes": nodes, "gpus": cluster.gpus, "pools": pools},
            "estimates": "requested",
            "warnings": ["mind <this>"],
            "policies": found,
            **more,
        }
    )


@pytest.fixture(scope="module")
def made() -> dict:
    return document()


def svgs(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def test_what_simulate_says_keeps_its_contract(made: dict) -> None:
    schema = json.loads((ROOT / "schedmate/schemas/simulate.schema.json").read_text())
    jsonschema.validate(made, schema)
    jsonschema.validate(made | {"synthetic": True}, schema)


def test_where_jobs_were_evicted_their_delay_is_compared() -> None:
    """A policy that starts everything at once and breaks it off again does not wait least."""
    records = [JobRecord("a", 0.0, 3000.0, 8), JobRecord("b", 10.0, 100.0, 8), JobRecord("c", 20.0, 50.0, 4)]
    found = {
        name: simulate(records, ClusterSpec.uniform(1, 8), name, conditions=Conditions()).summary()
        for name in ("fifo", "tiresias", "srtf")
    }
    runs = runs_of([("a", document() | {"policies": plain(found)})])
    rows = dict(metric_rows(runs))
    assert rows["evictions"][0] == "0" and rows["evictions"][1] != "0"
    assert "delay (JCT less runtime), mean" in rows and "  GPU time lost and restarting" in rows
    assert lede(runs).startswith("Mean delay by policy") and "srtf delays jobs least" in lede(runs)
    assert "Mean wait by policy" in lede(runs[:1] + runs[:1]), "none of these evicts"
    waited = short_duration(found["tiresias"]["queueing_s"]["mean"])
    assert lede(runs[1:2]).startswith(f"Under tiresias a job waited {waited} on average"), "of one it is the wait"


def test_who_waits_least_by_chance_alone_is_no_winner() -> None:
    records = [JobRecord("a", 0.0, 3000.0, 8), JobRecord("b", 10.0, 900.0, 8), JobRecord("c", 20.0, 50.0, 8)]
    found = {
        name: simulate(records, ClusterSpec.uniform(1, 8), name, conditions=Conditions()).summary()
        for name in ("fifo", "sjf")
    }

    def told(fifo: list[float], sjf: list[float]) -> str:
        waits = {"fifo": fifo, "sjf": sjf}
        shaken = {
            name: each
            | {
                "shakes": {
                    "seeds": [1, 2, 3],
                    "within_s": 30.0,
                    "metrics": {"queueing_mean_s": waits[name], "jct_mean_s": waits[name]},
                }
            }
            for name, each in found.items()
        }
        return lede(runs_of([("a", document() | {"policies": plain(shaken)})]))

    assert "sjf and fifo are equal within chance" in told([10.0, 20.0, 15.0], [19.0, 12.0, 14.0])
    assert "least" not in told([10.0, 20.0, 15.0], [19.0, 12.0, 14.0])
    assert "sjf waits least" in told([39.0, 33.0, 34.0], [19.0, 12.0, 14.0])


def test_different_jobs_are_not_compared() -> None:
    more = [JobRecord("a", 0.0, 3000.0, 8), JobRecord("b", 10.0, 900.0, 8)]
    documents = [
        (
            name,
            document() | {"policies": plain({"fifo": simulate(jobs, ClusterSpec.uniform(1, 8), "fifo").summary()})},
        )
        for name, jobs in (("all", more), ("part", more[:1]))
    ]
    runs = runs_of(documents)
    assert "different jobs" in lede(runs) and "least" not in lede(runs)
    assert dict(metric_rows(runs))["mean JCT, ratio"] == ["1.000", "n/a"]
    assert "<h1>Different jobs under one policy</h1>" in page(runs)


def test_what_went_wrong_is_told_in_rows() -> None:
    plainly = simulate([JobRecord("a", 0.0, 60.0, 8)], ClusterSpec.uniform(1, 8), "fifo").summary()
    mishaps = {"failures": {"runs": 2, "lost_gpu_s": 60.0}, "cancelled": {"waiting": 1, "running": 0}}
    rows = dict(summary_rows([plainly | mishaps, plainly, plainly | {"faults": {"events": 3, "jobs_interrupted": 1}}]))
    assert rows["failed runs"] == ["2", "0", "0"] and rows["cancelled, waiting / running"][0] == "1 / 0"
    assert rows["faults / jobs interrupted"] == ["0", "0", "3 / 1"]


def test_ratios_are_paired_by_seed(made: dict) -> None:
    fifo, easy = jct_ratios(runs_of([("a", made)]))
    assert (fifo.mean, fifo.low, fifo.high) == (1.0, 1.0, 1.0)
    own, base = (made["policies"][name]["shakes"]["metrics"]["jct_mean_s"] for name in ("easy", "fifo"))
    assert easy.mean == pytest.approx(sum(a / b for a, b in zip(own, base, strict=True)) / 3)
    assert easy.low is not None and easy.high is not None and easy.low < easy.mean < easy.high
    other = document(("easy",), seeds=(4, 5))
    assert jct_ratios(runs_of([("a", made), ("b", other)]))[2].low is None  # other seeds are no pairs


def test_a_shaken_metric_is_that_of_the_shaken_trace(made: dict) -> None:
    records = [
        JobRecord(str(i), 60.0 * i, 300.0 + 400 * (i % 5), (1, 4, 8, 2)[i % 4], requested_s=4000.0) for i in range(150)
    ]
    result = simulate(shaken(records, 2), ClusterSpec.uniform(3, 8), "easy", Requested())
    found = made["policies"]["easy"]["shakes"]["metrics"]
    assert found["queueing_mean_s"][1] == pytest.approx(float(result.waiting_s.mean()))


def test_the_page_is_whole_and_fetches_nothing(made: dict) -> None:
    text = page(runs_of([("a", made)]))
    assert not re.findall(r"""(?:src|href)=["'](?!data:|#)""", text) and "<script" not in text and "url(" not in text
    assert "&lt;u1&gt;" in text and "<u1>" not in text and "mind &lt;this&gt;" in text
    pictures = svgs(text)
    assert len(pictures) > 10
    for picture in pictures:
        names = [each.text for each in picture if each.tag in ("title", "desc")]
        assert len(names) == 2 and all(names)
        width, height = (float(v) for v in picture.attrib["viewBox"].split()[2:])
        for label in picture.iter("text"):
            assert -5 <= float(label.attrib["x"]) <= width + 5 and 0 <= float(label.attrib["y"]) <= height + 5
    for title in ("GPUs in use over time", "Nodes in part used", "The queue by size", "How long jobs wait", "Who waits",
                  "Nodes over time: easy", "Requested time against actual", "Completion time against"):  # fmt: skip
        assert title in text
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    assert all("jobs.csv" in each and "nodes" in each for each in captions)


def test_synthetic_jobs_are_called_so_in_every_caption(made: dict) -> None:
    text = page(runs_of([("a", made | {"synthetic": True})]))
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", text, re.DOTALL)
    assert captions and all("Synthetic" in each for each in captions)
    assert "Synthetic" not in page(runs_of([("a", made)]))


def test_many_jobs_and_nodes_make_no_larger_pictures() -> None:
    small = page(runs_of([("a", document(("fifo",), jobs=400, nodes=100, seeds=()))]))
    large = page(runs_of([("a", document(("fifo",), jobs=6000, nodes=1000, seeds=()))]))
    assert len(large) < 1.5 * len(small) < 600_000


def test_documents_without_detail_have_a_table_and_say_what_is_missing(made: dict) -> None:
    bare = document(("easy",), detailed=False, seeds=())
    text = page(runs_of([("a", made), ("b", bare)]))
    assert "made without --detail: b: easy" in text
    alone = page(runs_of([("b", bare)]))
    assert "In numbers" in alone and "How long jobs wait" not in alone
    assert len(metric_rows(runs_of([("a", made), ("b", bare)]))[0][1]) == 3


def test_differences_between_files_are_told(made: dict) -> None:
    other = made | {"cluster": made["cluster"] | {"nodes": 4}}
    assert differences(runs_of([("a", made), ("b", other)])) == ["the runs are on different clusters"]
    assert differences(runs_of([("a", made), ("b", made)])) == []
    assert "different traces" in differences(runs_of([("a", made), ("b", made | {"trace": "x.csv"})]))[0]


def test_the_same_jobs_are_known_by_what_they_are_not_by_their_file(made: dict) -> None:
    own = made | {"jobs_key": "a" * 16}
    renamed, others = own | {"trace": "other.csv"}, own | {"jobs_key": "b" * 16}
    assert same_jobs(runs_of([("a", own), ("b", renamed)]))
    assert differences(runs_of([("a", own), ("b", renamed)])) == []
    assert not same_jobs(runs_of([("a", own), ("b", others)]))
    assert differences(runs_of([("a", own), ("b", others)])) == ["the runs are of different jobs of one trace"]


def shaken_as(values: list[float], seeds: list[int]) -> Run:
    shakes = {"seeds": seeds, "within_s": 30.0, "metrics": {"queueing_mean_s": values}}
    return Run("x", "c0", "x", {}, {"shakes": shakes})


def test_chance_is_judged_replay_by_replay_where_both_were_shaken_alike() -> None:
    """The same shake makes every run worse or better by the same: ranges overlap, and one is always ahead."""
    one, other = shaken_as([100.0, 200.0, 300.0], [1, 2, 3]), shaken_as([110.0, 211.0, 309.0], [1, 2, 3])
    assert not equal_by_chance(one, other, "queueing_s")
    assert equal_by_chance(one, shaken_as([110.0, 195.0, 300.0], [1, 2, 3]), "queueing_s")
    assert equal_by_chance(one, shaken_as([110.0, 211.0, 309.0], [4, 5, 6]), "queueing_s")
    assert not equal_by_chance(one, Run("y", "c1", "y", {}, {}), "queueing_s")


def test_who_pays_is_told_with_the_winner(made: dict) -> None:
    """Sizes of which the winner keeps jobs waiting longer, if there are enough of them and it is noticed."""
    waits = {"1": (50, 600.0), "2-4": (50, 600.0), "5-8": (9, 600.0), "9-64": (50, 600.0)}
    base = {"jwtd_s": {name: {"jobs": jobs, "mean": mean} for name, (jobs, mean) in waits.items()}}
    own = {"1": (50, 10.0), "2-4": (50, 640.0), "5-8": (9, 9000.0), "9-64": (50, 1200.0)}
    run = Run(
        "x", "c0", "x", {}, {"jwtd_s": {name: {"jobs": jobs, "mean": mean} for name, (jobs, mean) in own.items()}}
    )
    assert longer_waits(run, base) == "those of 9-64 GPUs 20 min instead of 10 min"


def test_pictures_over_time_have_dates_where_the_trace_has_them(made: dict) -> None:
    """The first submission is at 23:00 on 28 March in Berlin; the night after, the clock is put forward."""
    (run, _), (plain_run, _) = runs_of([("a", dated(made, "Europe/Berlin"))]), runs_of([("a", made)])
    assert "Berlin, from 2026-03-28" in time_name([run])
    ticks = time_axis([run], 980).ticks
    assert (3600.0, "29\N{NO-BREAK SPACE}Mar") in ticks
    assert all(label != "02:00" for _, label in ticks)  # an hour that this night does not have
    assert time_name([plain_run]) == "time since the first submission"
    assert first_moment([run, plain_run]) is None


def broken(made: dict, change: str) -> dict:
    """The document with something in it that is not as it was printed."""
    other = json.loads(json.dumps(made))
    fifo = other["policies"]["fifo"]
    if change == "text for a number":
        fifo["jct_s"]["mean"] = "x"
    elif change == "a huge number":
        fifo["jct_s"]["mean"] = 10**400
    elif change == "a list for a mapping":
        fifo["jwtd_s"] = []
    elif change == "a short series":
        fifo["detail"]["gar"] = fifo["detail"]["gar"][:3]
    elif change == "nothing":
        fifo["detail"]["waiting_cdf"] = {}
    return other


@pytest.mark.parametrize(
    "change", ["text for a number", "a huge number", "a list for a mapping", "a short series", "nothing"]
)
def test_a_document_that_was_changed_is_refused_in_a_line(made: dict, change: str) -> None:
    with pytest.raises(UserError, match=r"a\.json: not what `schedmate simulate --json` prints"):
        check_document(Path("a.json"), "a", broken(made, change))
    check_document(Path("a.json"), "a", made)


def test_ratios_of_other_jobs_are_left_out_and_the_rest_stay(made: dict) -> None:
    own, others = made | {"jobs_key": "a" * 16}, made | {"jobs_key": "b" * 16}
    runs = runs_of([("a", own), ("b", others)])
    ratios = jct_ratios(runs)
    assert [ratio is None for ratio in ratios] == [False, False, True, True]
    assert metric_rows(runs)[0][1][2:] == ["n/a", "n/a"] and metric_rows(runs)[0][1][1] != "n/a"
    text = page(runs_of([("a", own | {"warnings": ["x"]}), ("b", others | {"warnings": ["y"]})]))
    assert "a: x" in text and "b: y" in text


def test_who_pays_is_told_where_the_winner_is_one_of_two(made: dict) -> None:
    def run(name: str, waits: list[float], large: float) -> Run:
        found = made["policies"]["fifo"]
        shakes = {"seeds": [1, 2, 3], "within_s": 30.0, "metrics": {"queueing_mean_s": waits, "jct_mean_s": waits}}
        sizes = {"9-64": {"jobs": 50, "mean": large}}
        summary = found | {"shakes": shakes, "jwtd_s": sizes, "queueing_s": found["queueing_s"] | {"mean": waits[0]}}
        return Run(name, "c0", name, made, summary)

    runs = [run("sjf", [900.0, 901.0, 902.0], 600.0), run("core", [10.0, 12.0, 11.0], 9000.0)]
    told = lede([*runs, run("patient", [11.0, 11.0, 11.0], 9000.0)])
    assert "core and patient are equal within chance" in told and "Not all jobs gain under core" in told


def test_no_input_is_written_over(schedmate, tmp_path: Path) -> None:
    trace, link = tmp_path / "jobs.csv", tmp_path / "link.html"
    trace.write_text("job_id,submit,duration,gpus\na,0,10,1\n")
    link.symlink_to(trace)
    for target in (trace, link):
        found = schedmate("simulate", trace, "--nodes", "1", "--report", target)
        assert found.returncode == 2 and "which is read" in found.stderr
    document = tmp_path / "a.json"
    document.write_text(schedmate("simulate", trace, "--nodes", "1", "--json").stdout)
    before = document.read_text()
    assert schedmate("compare", document, "--report", document).returncode == 2
    assert document.read_text() == before and trace.read_text().startswith("job_id")


def test_more_policies_than_a_report_can_show_are_refused_before_the_replay(schedmate, tmp_path: Path) -> None:
    names = "fifo,sjf,easy,conservative,saf,kant,patient,core,best-effort"
    found = schedmate("simulate", ROOT / "examples/trace.csv", "--nodes", "2", "--policy", names, "--report", "x.html")
    assert found.returncode == 2 and "at most 8" in found.stderr


def dated(made: dict, zone: str) -> dict:
    begin = datetime(2026, 3, 28, 22, 0, tzinfo=UTC).timestamp()
    shift = begin - made["policies"]["fifo"]["detail"]["start_s"][0]
    return made | {"clock": {"epoch_s": shift, "timezone": zone}}


def test_more_runs_than_colours_are_refused(made: dict) -> None:
    with pytest.raises(UserError, match="at most 8"):
        runs_of([(str(i), made) for i in range(5)])
    assert len({run.label for run in runs_of([("a", made), ("a", made)])}) == 4


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"policies": {}}', '{"trace": "", "policies": {"a": {}}}'])
def test_another_file_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"x\.json"):
        read_document(path)
    with pytest.raises(UserError, match="not a file"):
        read_document(tmp_path)


@pytest.mark.slow
def test_the_commands_from_trace_to_report(schedmate, tmp_path: Path) -> None:
    words = ["simulate", ROOT / "examples/trace.csv", "--nodes", "4", "--policy", "fifo,easy", "--shakes", "2"]
    first = schedmate(*words, "--report", tmp_path / "r.html", "--json")
    assert first.returncode == 0, first.stderr
    (tmp_path / "a.json").write_text(first.stdout)
    assert "trace.csv" in (tmp_path / "r.html").read_text()
    both = schedmate("compare", tmp_path / "a.json", tmp_path / "a.json", "--json", "--report", tmp_path / "c.html")
    assert both.returncode == 0, both.stderr
    schema = json.loads((ROOT / "schedmate/schemas/compare.schema.json").read_text())
    jsonschema.validate(json.loads(both.stdout), schema)
    assert (tmp_path / "c.html").stat().st_size > 50_000
    table = schedmate("compare", tmp_path / "a.json")
    assert "mean JCT, ratio" in table.stdout
    refused = schedmate("compare", tmp_path / "a.json", "--report", "/dev/null")
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1


def test_the_recorded_queue_and_who_waits_stand_beside_the_policies(schedmate, tmp_path: Path) -> None:
    rows = [f"j{i},{60 * i},600,8,{60 * i + 30 * (i % 4)},u{i % 12}" for i in range(48)]
    trace = tmp_path / "own.csv"
    trace.write_text("\n".join(["job_id,submit_s,duration_s,gpus,start_s,user", *rows, ""]))
    words = ("simulate", trace, "--nodes", 2, "--policy", "fifo,patient", "--shakes", 0)
    run = schedmate(*words, "--report", tmp_path / "r.html")
    assert run.returncode == 0, run.stderr
    line = next(line for line in run.stdout.splitlines() if line.strip().startswith("waiting, mean "))
    assert line.split()[2:4] == ["45", "s"], "what is recorded is the first column"
    text = (tmp_path / "r.html").read_text()
    assert "In the trace itself a job waited 45 s on average" in text and "as recorded<br>by the trace" in text
    assert text.count("┅ as recorded") >= 1 and "Dashed: by the starts that stand in the trace." in text
    assert text.count('class="line recorded"') >= 3, "over all jobs, wide and narrow, and by size"
    table = text[text.index("Who waits most in all") :]
    assert "The 10 of 12 users whose jobs wait longest in all by the trace" in table
    assert table[: table.index("</table>")].count("<tr>") == 11
    found = json.loads(schedmate(*words, "--json").stdout)
    jsonschema.validate(found, json.loads((ROOT / "schedmate/schemas/simulate.schema.json").read_text()))
    assert found["recorded"]["queueing_s"]["mean"] == 45
    trace.write_text(trace.read_text().replace("start_s", "other"))
    bare = schedmate(*words, "--report", tmp_path / "r.html")
    text = re.sub(r"<style>.*?</style>", "", (tmp_path / "r.html").read_text(), flags=re.DOTALL)
    assert "recorded" not in text and "wait longest in all under fifo" in text
    assert "as recorded: n/a, the trace has no start times" in bare.stdout
    assert json.loads(schedmate(*words, "--json").stdout)["recorded"] is None
