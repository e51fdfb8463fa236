"""Whose a replayed job is: the tenant that its record names, if the cluster has it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from analyzers.types import JobRecord
from schedmate.scheduler import Job, Tenant
from schedmate.simulator.estimates import Around, Estimates


class OfTenants(Around):
    """Other estimates, of jobs that belong to tenants. Jobs of a tenant that is not known are nobody's, and counted by
    the name that they give in ``unknown``."""

    def __init__(self, estimates: Estimates, tenants: Sequence[Tenant]) -> None:
        super().__init__(estimates)
        self._known = set(tenant_names(tenants))
        self.unknown: dict[str, int] = {}

    def job(self, record: JobRecord) -> Job:
        """The job with its tenant."""
        job, tenant = self._estimates.job(record), record.tenant
        if tenant in self._known:
            return replace(job, tenant=tenant)
        if tenant:
            self.unknown[tenant] = self.unknown.get(tenant, 0) + 1
        return job


class OfAccounts(Around):
    """Other estimates, of jobs that count against the accounts of their users."""

    def job(self, record: JobRecord) -> Job:
        """The job with its account."""
        return replace(self._estimates.job(record), account=record.user)


class OfOwners(Around):
    """Other estimates, of jobs whose hints are the word of their user, else of their tenant, if the estimates do not
    say whose word it is; who is new is judged among those of its tenant."""

    def job(self, record: JobRecord) -> Job:
        """The job with its account, and with the tenant that its record names, whether the cluster has it or not."""
        job = self._estimates.job(record)
        account = job.account if job.account is not None else record.user or record.tenant
        return replace(job, account=account, hint_tenant=record.tenant)


def tenant_names(tenants: Iterable[Tenant]) -> Iterator[str]:
    """All names of a tree, parents before children."""
    for tenant in tenants:
        yield tenant.name
        yield from tenant_names(tenant.children)
