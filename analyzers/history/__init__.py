"""The record of ended jobs and the search for those most like a new one.

File-backed here; the service implements the same `HistoryStore` port on SQL.
"""
