"""Whose a replayed job is, and among whom its hints are judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analyzers.types import JobRecord
from schedmate.scheduler import Job, Tenant
from schedmate.simulator.estimates import Perfect
from schedmate.simulator.of_tenants import OfAccounts, OfOwners, OfTenants
from schedmate.simulator.wrong_hints import OneLies, Owners

RECORD = JobRecord("j", 0.0, 10.0, 1, user="ann", tenant="lab")


@pytest.mark.parametrize(
    ("user", "tenant", "account"),
    [("ann", "lab", "ann"), ("ann", None, "ann"), (None, "lab", "lab"), (None, None, None)],
)
def test_hints_are_the_word_of_the_user_else_of_the_tenant_and_judged_among_those_of_the_tenant(
    user: str | None, tenant: str | None, account: str | None
) -> None:
    job = OfOwners(Perfect()).job(replace(RECORD, user=user, tenant=tenant))
    assert (job.account, job.hint_tenant, job.tenant) == (account, tenant, None)


def test_who_says_whose_word_it_is_is_left_that_and_the_tenant_counts_all_the_same() -> None:
    job = OfOwners(OneLies("lab", Owners())).job(replace(RECORD, user=None))
    assert (job.account, job.hint_tenant) == ("lab", "lab")
    assert OfOwners(OfAccounts(Perfect())).job(RECORD).hint_tenant == "lab"


def test_a_job_belongs_to_the_tenant_that_its_record_names_if_the_cluster_has_it() -> None:
    def belongs(tenant: str | None) -> Job:
        return estimates.job(replace(RECORD, tenant=tenant))

    estimates = OfTenants(Perfect(), [Tenant("org", children=(Tenant("lab"),))])
    assert [belongs(name).tenant for name in ("lab", "org", "other", None)] == ["lab", "org", None, None]
    assert estimates.unknown == {"other": 1}
