"""An operator's own failure signatures: candidates, which do nothing, and promoted ones, which `diagnose` uses."""

from schedmate.signatures.folder import Entry, SignatureFolder, active_signatures
from schedmate.signatures.trial import Measured, Trial, try_signatures

__all__ = ["Entry", "Measured", "SignatureFolder", "Trial", "active_signatures", "try_signatures"]
