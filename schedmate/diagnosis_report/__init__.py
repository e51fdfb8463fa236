"""A diagnosis to keep and to pass on: Markdown for tickets, a page with a picture for people."""

from schedmate.diagnosis_report.markdown import markdown
from schedmate.diagnosis_report.page import page

__all__ = ["markdown", "page"]
