"""A synthetic cluster with real files on disk, the whole walk over it, and a report; always labelled synthetic."""
