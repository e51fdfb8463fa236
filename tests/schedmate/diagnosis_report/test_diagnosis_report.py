"""Markdown and the page of a diagnosis."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyzers.failures import investigate
from schedmate.diagnosis_report import markdown, page
from schedmate.diagnosis_report.picture import ranks_over_time

HOSTILE = "ValueError: <script>alert(1)</script> ```| token=hf_abcdefghijklmnopqrstuvwxyz0123456789"
RANK = """2026-01-01 00:00:00 rank {rank} step 1 loss 2.0
2026-01-01 00:05:00 rank {rank} step 2 loss 1.9
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    folder = tmp_path / "job"
    folder.mkdir()
    for rank in range(40):
        text = RANK.format(rank=rank)
        if rank == 33:
            text += (
                f'2026-01-01 00:06:00 Traceback (most recent call last):\n  File "/w/a.py", line 3, in f\n{HOSTILE}\n'
            )
        else:
            text += "2026-01-01 00:16:00 ncclRemoteError: remote process exited or there was a network error\n"
        (folder / f"rank_{rank}.log").write_text(text, encoding="utf-8")
    return folder


def test_markdown_has_the_verdict_first_and_no_foreign_markup(job: Path) -> None:
    found, _ = investigate(job)
    text = markdown(found, job.name)
    assert text.startswith("# job: user-code, python-exception\n")
    assert "| ranks | 33 |" in text
    assert "hf_abcdef" not in text
    fenced = text.split("````text\n")[1].split("\n````")[0]
    assert fenced.splitlines()[0].startswith("rank_33.log:5  ValueError: <script>")
    assert "<script>" not in text.replace(fenced, "")


def test_page_is_escaped_redacted_and_has_the_picture(job: Path) -> None:
    found, moments = investigate(job)
    text = page(found, moments, job)
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert "hf_abcdef" not in text
    assert text.count("<svg") == 2
    assert "rank_33.log" in text and 'class="root"' in text


def test_named_rank_is_the_first_row_and_the_rest_is_counted(job: Path) -> None:
    found, moments = investigate(job)
    picture = ranks_over_time(found, moments)
    assert picture is not None
    assert picture.html.index(">rank 33<") < picture.html.index(">rank 0<")
    assert "16 more rows like these are left out" in picture.html
    assert "Evidence: rank 33 at 6" in picture.html


def test_no_picture_without_times(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("step 1 loss 2\nKeyError: 'x'\n", encoding="utf-8")
    found, moments = investigate(log)
    assert ranks_over_time(found, moments) is None
    assert "<svg" not in page(found, moments, log)


def test_lines_of_another_day_do_not_stretch_the_picture(job: Path) -> None:
    (job / "dmesg_n1.txt").write_text(
        "Dec 30 00:00:00 n1 kernel: NVRM: Xid (PCI:0000:86:00): 31, pid=2, name=python, Ch 00000008\n", encoding="utf-8"
    )
    _, moments = investigate(job)
    assert max(moment.at_s or 0.0 for moment in moments) < 3600


def test_command_writes_both(schedmate, job: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    ran = schedmate("diagnose", job, "--markdown", "--html", target)
    assert ran.returncode == 1 and ran.stdout.startswith("# job: user-code")
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_page_that_can_not_be_written(schedmate, job: Path, tmp_path: Path) -> None:
    ran = schedmate("diagnose", job, "--html", tmp_path / "no" / "page.html")
    assert ran.returncode == 2 and ran.stderr.count("\n") <= 2 and "Traceback" not in ran.stderr


def test_one_of_two_outputs(schedmate, job: Path) -> None:
    ran = schedmate("diagnose", job, "--markdown", "--json")
    assert ran.returncode == 2 and "one of the two" in ran.stderr
