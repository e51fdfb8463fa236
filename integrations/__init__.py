"""The outside world: trace formats, Slurm, Kubernetes, Ray, Prometheus, local processes.

Each implements a port of `schedmate.ports` and is found by entry point; nothing imports this room.
"""
