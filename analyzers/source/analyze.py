"""From a submission to its facts: the launch command is read, the program walked, and the idioms asked."""

from __future__ import annotations

from analyzers.source.files import Tree
from analyzers.source.fingerprint import fingerprint
from analyzers.source.idioms import batch, models, named, optimisation, resources, saving, schedule, subject
from analyzers.source.idioms.training import find_training
from analyzers.source.launch.read import read_launch, with_request
from analyzers.source.reader import walk
from analyzers.source.reading import Reading
from analyzers.types import FACT_NAMES, SourceFacts, Submission


def analyze(submission: Submission) -> SourceFacts:
    """What source and launch command say about a job, without running or importing any of it.

    Facts that can not be known are absent. Never raises for what the work dir or the command holds; what could not
    be read stands in ``warnings``. Takes milliseconds for a usual job and is bounded for any other.
    """
    tree = Tree(submission.workdir)
    launch = with_request(read_launch(submission.command, tree, submission.env), submission.gpus, submission.nodes)
    processes, devices = resources.process_count(launch), resources.visible_devices(launch)
    machine = walk(tree, launch, processes, devices)
    reading = Reading(launch, machine, processes=machine.processes, devices=devices)
    gather(reading)
    facts = {name: reading.facts[name] for name in FACT_NAMES if name in reading.facts}
    return SourceFacts(facts, tuple(tree.warnings), fingerprint(reading))


def gather(reading: Reading) -> None:
    """Ask the idioms in the order in which they build on each other."""
    if reading.launch.kind == "none":
        return
    named.collect(reading)
    training = find_training(reading)
    subject.offer_framework(reading)
    subject.offer_workload(reading, training)
    resources.offer_resources(reading, training)
    subject.offer_dataset(reading)
    subject.offer_model(reading, training)
    subject.offer_task(reading, training)
    subject.offer_sample_sizes(reading)
    schedule.offer_schedule(reading, training)
    batch.offer_batches(reading, training)
    optimisation.offer_optimizer(reading, training)
    optimisation.offer_precision(reading, training)
    saving.offer_saving(reading, training)
    models.offer_parameters(reading, training)
