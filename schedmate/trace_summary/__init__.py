"""What is in a trace: numbers, what is missing and what that rules out, and a page of pictures."""

from schedmate.trace_summary.collect import Collected, collect
from schedmate.trace_summary.summary import summarise

__all__ = ["Collected", "collect", "summarise"]
