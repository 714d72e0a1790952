"""What is written of an object that keeps what it has computed."""

from dataclasses import fields
from typing import Any

__all__ = ["WithoutCache"]


class WithoutCache:
    """A dataclass that is pickled and copied by its fields only: what was cached on the way is made again."""

    def by_field(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __getstate__(self) -> dict[str, Any]:
        return self.by_field()
