"""Learns to forecast river levels from series of gauges, with a library of our own."""

from hydro_plans import Plan

RATE = 0.05
plan = Plan(net="HydroNet", dataset="RiverGauges-2", nb_epochs=40, samples_per_batch=24)
plan.go(lr=RATE)
