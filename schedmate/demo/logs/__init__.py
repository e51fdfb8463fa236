"""Runtime logs of synthetic jobs: training logs in each framework's own format, and failures over several files."""
