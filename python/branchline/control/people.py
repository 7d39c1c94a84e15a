"""People: who they are, and what they may do."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.control.room_errors import RefusedError

# A physicist changes what is theirs, an operator also what is others' and runs trains, an administrator manages people.
PHYSICIST, OPERATOR, ADMINISTRATOR = "physicist", "operator", "administrator"
ROLES = (PHYSICIST, OPERATOR, ADMINISTRATOR)


@dataclass(frozen=True)
class Person:
    """Somebody who is logged in. ``groups`` are those that the person belongs to."""

    name: str
    role: str = PHYSICIST
    groups: tuple[str, ...] = ()

    @property
    def is_operator(self) -> bool:
        """Whether this person may do what operators may."""
        return self.role in (OPERATOR, ADMINISTRATOR)

    def owns(self, owner: str) -> bool:
        """Whether this person may change what belongs to ``owner``."""
        return self.name == owner or self.is_operator

    def has_part_in(self, owner: str, group: str) -> bool:
        """Whether it belongs to this person, to a group of theirs, or they are an operator."""
        return self.owns(owner) or (group != "" and group in self.groups)

    def check_owns(self, owner: str) -> None:
        """Raises RefusedError unless this person may change what belongs to ``owner``."""
        if not self.owns(owner):
            raise RefusedError(f"{self.name} may not change what belongs to {owner}", hint="ask them or an operator")
