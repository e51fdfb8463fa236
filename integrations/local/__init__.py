"""The engine that every machine has: processes of its own."""

from integrations.local.engine import LocalEngine

__all__ = ["LocalEngine"]
