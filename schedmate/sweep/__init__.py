"""Many replays: policies x workloads x loads x seeds, on an engine, resumable, the same whatever runs them."""
