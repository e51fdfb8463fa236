"""Reads runtime logs: intake of messy files, and `read_progress(path)` returning `Progress`.

Bounded memory whatever the size of the input.
"""
