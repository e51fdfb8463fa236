"""One file a command of the `schedmate` command line; `schedmate.cli` puts them together.

A command reads its arguments, calls one room, and prints; heavy imports happen inside the function.
"""
