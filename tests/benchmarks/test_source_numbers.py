"""The arithmetic on architectures against published figures."""

from __future__ import annotations

import pytest

from benchmarks.source_numbers import Comparison, Fit, Run, comparisons, fits, runs

ALL = list(comparisons())


@pytest.mark.parametrize("row", [r for r in ALL if not r.unsure], ids=lambda r: f"{r.model}-{r.quantity}")
def test_the_arithmetic_is_near_what_is_published(row: Comparison) -> None:
    assert row.holds, f"{row.published:.6g} published ({row.source}), {row.computed:.6g} computed: {row.error:+.2%}"


def test_enough_models_of_every_kind_are_compared() -> None:
    held = [r for r in ALL if not r.unsure]
    both = {r.model for r in held if r.quantity == "parameters"} & {
        r.model for r in held if r.quantity in ("gmacs", "training_flops")
    }
    assert len(both) >= 60
    kinds = ("resnet50", "efficientnet_b4", "vit_b_16", "swin_b", "DiT-XL/2", "ADM", "GPT-3 175B", "mpt-7b")
    assert set(kinds) <= both
    assert all(r.source for r in ALL)


def test_what_is_not_held_against_the_arithmetic_says_why_and_is_near_all_the_same() -> None:
    unsure = [r for r in ALL if r.unsure]
    assert len(unsure) <= 3 and all(abs(r.error) < 0.2 for r in unsure)


@pytest.mark.parametrize("fit", list(fits()), ids=lambda fit: f"{fit.of} on {fit.published_gib:.1f}")
def test_what_is_published_to_fill_a_gpu_does(fit: Fit) -> None:
    """The batch is the largest round one that fits, so that the next, usually twice as many samples, does not."""
    assert fit.estimate_gib.low <= fit.published_gib <= fit.estimate_gib.high
    least, most = (0.8, 1.45) if fit.measured else (0.5, 1.1)
    assert least * fit.published_gib <= fit.estimate_gib.value <= most * fit.published_gib


@pytest.mark.parametrize("run", list(runs()), ids=lambda run: run.of.partition(",")[0] + f" {run.published_s:g}")
def test_a_published_run_lasts_about_as_long_as_its_facts_let_expect(run: Run) -> None:
    assert run.estimate_s.low <= run.published_s <= run.estimate_s.high
    assert run.published_s / 2 <= run.estimate_s.value <= 2 * run.published_s
