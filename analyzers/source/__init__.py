"""Reads source code and launch commands: `analyze(submission)` returns `SourceFacts`, each with evidence.

Nothing of the job is executed or imported; everything is parsed as text.
"""
