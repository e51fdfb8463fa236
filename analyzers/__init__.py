"""Read one artefact of a job (source, log, failure, history) and return facts about it.

Each analyser is a function over text with its state passed in; it executes and imports nothing of the job.
"""
