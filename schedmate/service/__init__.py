"""The HTTP service: the same answers as the command line, kept, and summed up over many jobs."""
