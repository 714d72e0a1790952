"""What is written of an object that keeps what it has computed."""

from dataclasses import fields

__all__ = ["WithoutCache"]


class WithoutCache:
    """A dataclass that is pickled and copied by its fields only: what was cached on the way is made again."""

    def by_field(self):
        """Return the fields by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __getstate__(self):
        return self.by_field()
