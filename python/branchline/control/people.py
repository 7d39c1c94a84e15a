"""Roles of people and their permissions."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.control.room_errors import RefusedError

# Roles. Physicists change their own entries. Operators also change other people's entries and approve trains.
# Administrators can do everything that operators can, and also manage people.
PHYSICIST, OPERATOR, ADMINISTRATOR = "physicist", "operator", "administrator"
ROLES = (PHYSICIST, OPERATOR, ADMINISTRATOR)


@dataclass(frozen=True)
class Person:
    """A logged-in person, with role and groups."""

    name: str
    role: str = PHYSICIST
    groups: tuple[str, ...] = ()

    @property
    def is_operator(self) -> bool:
        """Whether this person has operator permissions."""
        return self.role in (OPERATOR, ADMINISTRATOR)

    def owns(self, owner: str) -> bool:
        """Whether this person may change the entries of the person ``owner``."""
        return self.name == owner or self.is_operator

    def has_part_in(self, owner: str, group: str) -> bool:
        """Whether this person may change an entry of ``owner``, or is a member of the entry's group ``group``."""
        return self.owns(owner) or (group != "" and group in self.groups)

    def check_owns(self, owner: str) -> None:
        """Raise RefusedError unless this person may change the entries of the person ``owner``."""
        if not self.owns(owner):
            raise RefusedError(f"{self.name} may not change entries of {owner}", hint="ask them or an operator")
