"""Files of every kind of mess come out as lines, in bounded memory, or are refused in one line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import time
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from analyzers.logs.intake import KEPT_BYTES, discover, read_lines
from prompts.errors import UserError

_ZSTD = zstandard.ZstdCompressor().compress


def texts(path: Path, warnings: list[str] | None = None) -> list[tuple[int, str]]:
    (file,) = discover(path)
    warn = warnings.append if warnings is not None else (lambda _: None)
    return [(line.number, line.text) for line in read_lines(file, warn)]


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "want"),
    [
        (b"a\nb\n", [(1, "a"), (2, "b")]),
        (b"a\r\nb", [(1, "a"), (2, "b")]),
        (b"a\n\nb\n", [(1, "a"), (2, ""), (3, "b")]),
        (b"\x1b[31mred\x1b[0m plain\n\x1b]0;title\x07x\n", [(1, "red plain"), (2, "x")]),
        (b"#033[36m(pid=1)#033[0m x\n", [(1, "(pid=1) x")]),
        (b"\r 1/3\r 2/3\r 3/3\ndone\n", [(1, " 1/3"), (1, " 2/3"), (1, " 3/3"), (2, "done")]),
        (b"1/9\x08\x08\x08\x08\x08\r2/9\n", [(1, "1/9"), (1, "2/9")]),
        (b"ab\x08c\n", [(1, "ac")]),
        (b"\0\0\0a\0b\n", [(1, "ab")]),
        ("grün\n".encode("latin-1") + "blå\n".encode(), [(1, "grün"), (2, "blå")]),
        (b"\xef\xbb\xbfstep 1\n", [(1, "step 1")]),
        ("step 1\nstep 2\n".encode("utf-16"), [(1, "step 1"), (2, "step 2")]),
        ("step 1\nstep 2\n".encode("utf-16-le"), [(1, "step 1"), (2, "step 2")]),
        ("step 1\nstep 2\n".encode("utf-32"), [(1, "step 1"), (2, "step 2")]),
        ("a\x0bb\x0cc\x85d\u2028e\n".encode(), [(1, "a\x0bb\x0cc\x85d\u2028e")]),
    ],
)
def test_lines(data: bytes, want: list[tuple[int, str]], tmp_path: Path) -> None:
    assert texts(write(tmp_path / "x.log", data)) == want


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, _ZSTD])
def test_compressed_by_magic_not_by_name(pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    assert texts(write(tmp_path / "x.log", pack(b"one\ntwo\n"))) == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lambda data: lzma.compress(data, preset=0), _ZSTD])
def test_truncated_compression_gives_what_can_be_read(pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    packed = pack("".join(f"line {i} {i * 7919 % 104729}\n" for i in range(200_000)).encode())
    warnings: list[str] = []
    got = texts(write(tmp_path / "x.gz", packed[: len(packed) * 2 // 3]), warnings)
    assert len(got) > 10_000
    assert got[0][1].startswith("line 0 ")
    assert len(warnings) == 1
    assert "cut off" in warnings[0]


def test_zstd_frames_follow_each_other_and_a_bomb_costs_no_memory(tmp_path: Path) -> None:
    path = write(tmp_path / "x.zst", _ZSTD(b"one\n") + _ZSTD(b"x" * 300_000_000) + _ZSTD(b"\ntwo\n"))
    tracemalloc.start()
    got = [(number, len(text)) for number, text in texts(path)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got == [(1, 3), (2, KEPT_BYTES), (3, 3)]
    assert peak < 120_000_000


def test_a_long_line_is_cut_and_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as out:
        out.write(b"before\n")
        for _ in range(50):
            out.write(b"x" * 1_000_000)
        out.write(b"\nafter\n")
    (file,) = discover(path)
    tracemalloc.start()
    got = [(line.number, len(line.text), line.text[:6]) for line in read_lines(file)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert got == [(1, 6, "before"), (2, KEPT_BYTES, "xxxxxx"), (3, 5, "after")]
    assert peak < 20_000_000


def test_an_endless_bar_keeps_its_end(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", b"".join(b"\r%d/300000 [====]" % i for i in range(300_000)))
    got = texts(path)
    assert got[-1] == (1, "299999/300000 [====]")
    assert len(got) == 300_000


def test_a_hole_of_nuls_does_not_swallow_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as out:
        out.truncate(5_000_000)
        out.seek(5_000_000)
        out.write(b"first\nsecond\n")
    assert texts(path) == [(1, "first"), (2, "second")]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "nothing to read"),
        (b"\n \n", "nothing to read"),
        (bytes(range(256)) * 50, "is binary"),
        (b"PK\x03\x04" + b"a" * 100, "zip archive"),
        (b"\x28\xb5\x2f\xfd" + b"a" * 100, "nothing to read .* damaged"),
        (b"\x1f\x8b" + b"broken", "nothing to read .* damaged"),
    ],
)
def test_refused_in_one_line(data: bytes, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says) as error:
        discover(write(tmp_path / "x.log", data))
    assert "\n" not in str(error.value)


def test_missing_and_special_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        discover(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="device, pipe or socket"):
        discover(tmp_path / "pipe")
    with pytest.raises(UserError, match="device, pipe or socket"):
        discover(Path("/dev/null"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="nothing to read"):
        discover(tmp_path / "empty")
    with pytest.raises(UserError, match=r"cannot be read|no such"):
        discover(Path("/" + "x" * 5000))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable(tmp_path: Path) -> None:
    path = write(tmp_path / "x.log", b"a\n")
    path.chmod(0)
    with pytest.raises(UserError, match="cannot be read"):
        discover(path)


def test_a_folder_with_companions(tmp_path: Path) -> None:
    job = tmp_path / "job"
    (job / "attempt_0" / "3").mkdir(parents=True)
    for name, text in {
        "rank_10.log": "step 1\n",
        "rank_2.log": "step 1\n",
        "worker-1.log": "step 1\n",
        "node_gpu-7_torchrun.log": "I0417 10:00:00.000000 8801 torch/distributed/run.py:1] joined\n",
        "dmesg_gpu-7.txt": "[812219.153810] mce: CPU49: Core temperature above threshold\n",
        "messages": "Jun 13 16:26:26 gpu-8 kernel: NVRM: Xid (PCI:0000:1b:00): 79\n",
        "sacct.txt": "JobID   JobName  State  ExitCode\n------- -------- ------ ----\n1 x FAILED 1:0\n",
        "scontrol.out": "JobId=1 JobName=x\n   UserId=a(1)\n",
        "events.txt": "LAST SEEN   TYPE      REASON      OBJECT   MESSAGE\n1m   Normal    Scheduled   pod/x   ok\n",
        "slurm-1.out": "== job 1\nstep 1\n",
        "attempt_0/3/stderr.log": "step 1\n",
        "empty.log": "",
        "model.pt": "PK",
        "train.py": "print(1)\n",
        ".hidden": "x\n",
    }.items():
        (job / name).write_text(text)
    (job / "noise.dat").write_bytes(bytes(range(256)) * 10)
    os.mkfifo(job / "pipe")
    (tmp_path / "secret.txt").write_text("outside\n")
    (job / "link.log").symlink_to(tmp_path / "secret.txt")
    (job / "loop").symlink_to(job)
    warnings: list[str] = []
    found = {file.name: (file.kind, file.rank, file.node) for file in discover(job, warnings.append)}
    assert found == {
        "rank_2.log": ("rank", 2, None),
        "rank_10.log": ("rank", 10, None),
        "worker-1.log": ("rank", 1, None),
        "attempt_0/3/stderr.log": ("rank", 3, None),
        "node_gpu-7_torchrun.log": ("node", None, "gpu-7"),
        "dmesg_gpu-7.txt": ("kernel", None, "gpu-7"),
        "messages": ("kernel", None, "gpu-8"),
        "sacct.txt": ("scheduler", None, None),
        "scontrol.out": ("scheduler", None, None),
        "events.txt": ("kubernetes", None, None),
        "slurm-1.out": ("job", None, None),
    }
    assert list(found).index("rank_2.log") < list(found).index("rank_10.log")
    assert sorted(w.split("/")[-1].split(":")[0] for w in warnings) == ["empty.log", "link.log", "noise.dat"]


@settings(max_examples=150, deadline=None)
@given(st.binary(min_size=1, max_size=4000))
def test_arbitrary_bytes_never_crash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = write(tmp_path_factory.mktemp("b") / "x.log", data)
    try:
        (file,) = discover(path)
    except UserError:
        return
    numbers = [line.number for line in read_lines(file)]
    assert numbers == sorted(numbers)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(str.strip), min_size=1, max_size=30
    )
)
def test_plain_text_survives(tmp_path_factory: pytest.TempPathFactory, lines: list[str]) -> None:
    lines = [line for line in lines if "^[[" not in line and "#033[" not in line and not line.startswith("\ufeff")] or [
        "a"
    ]
    path = write(tmp_path_factory.mktemp("t") / "x.log", "\n".join(lines).encode())
    assert texts(path) == list(enumerate(lines, 1))


def test_a_hole_of_gigabytes_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "a.log", b"first\n")
    os.truncate(path, 1 << 29)  # what a node that lost power leaves behind
    with path.open("ab") as stream:
        stream.write(b"\nlast\n")
    since = time.process_time()
    assert texts(path) == [(1, "first"), (2, ""), (3, "last")]
    assert time.process_time() - since < 4
