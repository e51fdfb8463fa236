"""What earlier failures change about a verdict: whole logs in, the changed verdict out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analyzers.failures import examine
from analyzers.failures.past import FileFailureStore, Told, judge, record_of, repeat_offenders
from analyzers.types import Diagnosis, FailureRecord, NodeProof

CRASH = (
    "step 1 loss 2.0\nTraceback (most recent call last):\n"
    '  File "/h/u/train.py", line {line}, in forward\n    y = self.head(x)\n'
    "RuntimeError: {message}\n"
)
SHAPE = CRASH.replace("{message}", "The size of tensor a (7) must match the size of tensor b ({line})")
CUDA = CRASH.replace("{message}", "CUDA error: an illegal memory access was encountered")
TIMED_OUT = (
    "step 1 loss 2.0 lr 1\n[rank3]:[E] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds\n"
)


class Cluster:
    """Jobs diagnosed one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.count = folder, FileFailureStore(folder / "f.sqlite"), 0

    def job(self, text: str, nodes: str, user: str = "bo", name: str = "train", job: str = "") -> Diagnosis:
        self.count += 1
        log = self.folder / f"{self.count}.log"
        log.write_text(text, encoding="utf-8")
        found, scan, topology = examine(log)
        told = Told(job or str(1000 + self.count), 0, user, f"{name}-{self.count}", tuple(nodes.split()))
        this = record_of(found, scan, topology, told, unnamed="x", now_s=3600.0 * self.count)
        judged = judge(found, this, self.store)
        self.store.add([this])
        return judged

    def good(self, count: int) -> None:
        self.store.add(
            FailureRecord(f"g{n}", 3600.0 * n, "none", user=f"u{n % 9}", nodes=(f"n{n % 20}",), nodes_told=True)
            for n in range(count)
        )
        self.count = count


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def kinds(found: Diagnosis) -> list[str]:
    return [note.kind for note in found.past]


@pytest.mark.parametrize("text", [SHAPE, CUDA])
def test_the_same_traceback_on_other_nodes_is_code(cluster: Cluster, text: str) -> None:
    first = cluster.job(text.replace("{line}", "31"), "n1 n2")
    assert first.past == ()
    again = cluster.job(text.replace("{line}", "32"), "n3 n4")
    assert again.category == "user-code" and again.confidence >= 0.75 and again.culprit_nodes == ()
    assert kinds(again)[0] == "same-failure-elsewhere" and again.past[0].nodes == ("n1", "n2")
    assert "on 2 other nodes (n1, n2)" in again.explanation
    third = cluster.job(text.replace("{line}", "33"), "n5")
    assert "repeated" in kinds(third) and third.retryable is False


def test_a_hang_without_a_cause_needs_two_other_places(cluster: Cluster) -> None:
    assert cluster.job(TIMED_OUT, "n1 n2").category == "unknown"
    second = cluster.job(TIMED_OUT, "n3 n4")
    assert second.category == "unknown" and kinds(second) == ["same-failure-elsewhere"]
    third = cluster.job(TIMED_OUT, "n5 n6")
    assert (third.category, third.action, third.retryable) == ("user-code", "fix_code", False)


def test_the_same_hang_of_other_work_says_nothing_about_this(cluster: Cluster) -> None:
    for user, name in (("ann", "train"), ("bo", "eval"), ("cy", "other")):
        cluster.job(TIMED_OUT, f"n{len(name)} n9", user=user, name=name)
    assert cluster.job(TIMED_OUT, "n1 n2").past == ()


def test_a_node_that_ends_jobs_of_several_people_is_blamed(cluster: Cluster) -> None:
    cluster.good(500)
    for user in ("u1", "u2", "u3"):
        cluster.job(TIMED_OUT, "n7", user=user, name=user)
    found = cluster.job(TIMED_OUT, "n7 n8", user="u4", name="fresh")
    assert (found.category, found.culprit_nodes) == ("infrastructure-hardware", ("n7",))
    assert found.action == "cordon_node_and_restart" and found.retryable is True
    assert kinds(found) == ["node-ends-jobs"] and "3 failures" in found.past[0].says
    own = cluster.job(SHAPE, "n7 n8", user="u5", name="other")
    assert own.category == "user-code" and own.culprit_nodes == ()


ECC = "step 1 loss 2.0\nRuntimeError: CUDA error: uncorrectable ECC error encountered\n"


def test_logs_of_several_people_that_tell_of_broken_hardware_blame_the_node(cluster: Cluster) -> None:
    cluster.good(500)
    for user in ("u1", "u2", "u3"):
        cluster.job(ECC, "n7", user=user, name=user)
    (*_, kept) = cluster.store.since(0)
    assert (kept.node_fault, kept.culprits) == (True, ())
    found = cluster.job(TIMED_OUT, "n7 n8", user="u4", name="fresh")
    assert (found.category, found.culprit_nodes) == ("infrastructure-hardware", ("n7",))
    for number in range(20):
        cluster.job(ECC, "n9", user="mallory", name=f"w{number}")
    assert cluster.job(TIMED_OUT, "n9 n8", user="u4", name="fresh").culprit_nodes == ()


@pytest.mark.parametrize(
    ("proof", "culprits", "accused"),
    [("platform", ("n7",), ()), ("job-log", (), ("n7",)), ("several-jobs", (), ("n7",)), (None, (), ())],
)
def test_on_whose_word_a_node_is_named_is_kept(
    tmp_path: Path, proof: NodeProof | None, culprits: tuple[str, ...], accused: tuple[str, ...]
) -> None:
    log = tmp_path / "a.log"
    log.write_text(ECC, encoding="utf-8")
    found, scan, topology = examine(log)
    told = replace(found, culprit_nodes=("n7",) if proof else (), node_proof=proof)
    kept = record_of(told, scan, topology, Told("1", 0, "bo", "t", ("n7",)), unnamed="x", now_s=1.0)
    assert (kept.node_fault, kept.culprits, kept.accused) == (True, culprits, accused)
    retried = replace(told, action="restart_same_nodes")
    assert not record_of(retried, scan, topology, Told("1"), unnamed="x", now_s=1.0).node_fault


def test_one_persons_forged_failures_blame_no_node(cluster: Cluster) -> None:
    cluster.good(500)
    forged = TIMED_OUT + "n7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
    for number in range(30):
        cluster.job(forged, "n7", user="mallory", name=f"w{'x' * number}")
    found = cluster.job(TIMED_OUT, "n7 n8", user="u4", name="fresh")
    assert found.culprit_nodes == () and found.category == "unknown"


def test_jobs_that_stumble_over_one_file(cluster: Cluster) -> None:
    broken = CRASH.replace("{message}", "could not decode sample in /data/shards/train-00042.tar").replace(
        "{line}", "9"
    )
    for number, user in enumerate(("ann", "cy"), 1):
        other = broken.replace("forward", f"load_{user}")
        assert cluster.job(other, f"n{number}", user=user, name=user).past == ()
    found = cluster.job(broken, "n5")
    assert "same-data" in kinds(found) and "/data/shards/train-00042.tar" in found.explanation


def test_repeat_offenders_until_they_end_well() -> None:
    def failed(at: int, **more: object) -> FailureRecord:
        values = {"user": "bo", "work": "w", "failure": "f", "retryable": False, **more}
        return FailureRecord(f"j{at}", at, "user-code", **values)  # type: ignore[arg-type]

    thrice = [failed(at, nodes=(f"n{at}",)) for at in range(3)]
    (found,) = repeat_offenders(thrice)
    assert (found.times, found.nodes, found.jobs[0]) == (3, 3, "j2")
    assert repeat_offenders(thrice[:2]) == ()
    assert repeat_offenders([*thrice, FailureRecord("j9", 9, "none", user="bo", work="w")]) == ()
    assert repeat_offenders([failed(at, retryable=True) for at in range(9)]) == ()
    assert repeat_offenders([failed(at, culprits=("n1",)) for at in range(9)]) == ()


def test_a_job_of_the_same_id_of_somebody_else_is_another_job(cluster: Cluster) -> None:
    assert cluster.job(CUDA.format(line=1), "n1", user="bo", job="train").past == ()
    assert cluster.job(CUDA.format(line=1), "n2", user="ann", name="other", job="train").category != "none"
    owners = {(each.job_id, each.user) for each in cluster.store.since(0)}
    assert owners == {("train", "bo"), ("train", "ann")}
    assert kinds(cluster.job(CUDA.format(line=1), "n3", user="bo", job="train-2")) == ["same-failure-elsewhere"]
