"""Why somebody cannot be let in by a provider of OpenID Connect."""

from __future__ import annotations

from branchline.errors import BranchlineError


class ProviderError(BranchlineError):
    """The provider cannot be reached, or does not answer as OpenID Connect says: nobody can log in by it now."""


class RejectedError(BranchlineError):
    """A log-in was not begun here, took too long, or was refused by the provider."""
