"""What can go wrong. `rewright.Error` is the base of all exceptions that the library raises by itself."""


class Error(Exception):
    """A failure, in three parts.

    code: of which kind it is: "usage", "bad_input", "unsupported", "missing" or "cancelled".
    text: what went wrong.
    where: a file, node, input or option; may be empty.
    hint: what to do about it; may be empty.
    """

    code = ""

    def __init__(self, text="", where="", hint=""):
        super().__init__(text, where, hint)
        self.text = text
        self.where = where
        self.hint = hint

    def __str__(self):
        line = f"{self.where}: {self.text}" if self.where else self.text
        return f"{line} ({self.hint})" if self.hint else line


class UsageError(Error, ValueError):
    """Something was asked for that does not exist: a device, an option, an operator."""

    code = "usage"


class BadInputError(Error, ValueError):
    """A model, file or tensor is broken or contradicts itself."""

    code = "bad_input"


class UnsupportedError(Error, NotImplementedError):
    """The input is sound, but part of it cannot be executed here."""

    code = "unsupported"


class MissingError(Error, OSError):
    """A library, a device, memory or space is missing on this machine."""

    code = "missing"

    def __str__(self):
        return Error.__str__(self)


class CancelledError(Error):
    """The caller stopped the work."""

    code = "cancelled"


_KINDS = {kind.code: kind for kind in (UsageError, BadInputError, UnsupportedError, MissingError, CancelledError)}


def error_of(code, text, where, hint):
    """The exception of a kind. The extension module calls this."""
    return _KINDS[code](text, where, hint)
