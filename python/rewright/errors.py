"""Exceptions. `rewright.Error` is the base of all exceptions that the library raises by itself.

An exception has two classes: Rewright's (BadInputError, ...) and, if it comes from a session, ONNX Runtime's (NoSuchFile,
InvalidArgument, ...), which are in `rewright.capi.onnxruntime_pybind11_state`. So a program's `except` clauses need no change.
"""


class Error(Exception):
    """A failure, in three parts.

    code: its kind: "usage", "bad_input", "unsupported", "missing" or "cancelled".
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
    """Something requested does not exist: a device, an option, an operator."""

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


# ---- ONNX Runtime's kinds, one for each of its status codes. None of them is raised by itself.


class Fail(Error):
    """Any other failure of a model, a run or an option."""


class InvalidArgument(Error):
    """Arguments of a session do not fit: names, types or shapes of inputs, names of outputs."""


class NoSuchFile(Error):
    """There is no such file."""


class NoModel(Error):
    """There is no model."""


class EngineError(Error):
    """Never raised here."""


class RuntimeException(Error):
    """A node could not be executed on what it was given."""


class InvalidProtobuf(Error):
    """The bytes are no model."""


class ModelLoaded(Error):
    """Never raised here: a session has one model."""


class NotImplemented(Error):  # noqa: A001 (ONNX Runtime's name)
    """The model has something that nothing here executes."""


class InvalidGraph(Error):
    """The model's graph contradicts itself, or has a node that nothing defines."""


class EPFail(Error):
    """A device failed."""


class ModelLoadCanceled(Error):
    """Making the session was ended: SessionOptions.set_load_cancellation_flag."""


class ModelRequiresCompilation(Error):
    """Never raised here."""


class NotFound(Error):
    """Never raised here."""


class DeviceReset(Error):
    """Never raised here."""


STATUS_KINDS = (
    Fail, InvalidArgument, NoSuchFile, NoModel, EngineError, RuntimeException, InvalidProtobuf, ModelLoaded, NotImplemented,
    InvalidGraph, EPFail, ModelLoadCanceled, ModelRequiresCompilation, NotFound, DeviceReset,
)  # fmt: skip


# ---- What is raised. ONNX Runtime chooses between several kinds by details of its own; here these are all of them.


class NoSuchFileError(BadInputError, NoSuchFile):
    """There is no such file."""


class DamagedModelError(BadInputError, InvalidProtobuf):
    """The bytes are no model."""


class InvalidModelError(BadInputError, InvalidGraph, InvalidArgument, Fail):
    """The model contradicts itself."""


class UnsupportedModelError(UnsupportedError, NotImplemented, InvalidGraph, Fail):
    """The model has something that nothing here executes."""


class SessionMissingError(MissingError, EPFail, Fail):
    """A device, memory or a library is missing for a session."""


class ArgumentError(BadInputError, InvalidArgument, Fail):
    """An input or an output does not fit the model."""


class ConversionError(BadInputError, InvalidArgument, RuntimeError):
    """A value given for an input is no tensor."""


class DlpackError(BadInputError, TypeError):
    """The argument is no DLPack capsule, or a used one."""


class UnsupportedArgumentError(UnsupportedError, InvalidArgument):
    """A value given for an input has elements that no tensor has."""


class RunError(BadInputError, InvalidArgument, RuntimeException, Fail):
    """A node could not be executed on what it was given."""


class UnsupportedRunError(UnsupportedError, NotImplemented, RuntimeException, Fail):
    """A node cannot be executed, as it turned out in a run."""


class BindingError(RunError, RuntimeError):
    """A bound value does not fit the model, or the run failed."""


class TerminatedError(CancelledError, Fail):
    """RunOptions.terminate ended the run."""


class LoadCancelledError(CancelledError, ModelLoadCanceled, RuntimeError):
    """SessionOptions.set_load_cancellation_flag ended the making of a session."""


class OptionError(UsageError, RuntimeError):
    """There is no such entry, provider or option, or it has no such value."""


class OptionArgumentError(UsageError, InvalidArgument):
    """The value of an option contradicts the option, or other options."""


class UnsupportedOptionError(UnsupportedError, Fail):
    """An option of ONNX Runtime's whose effect would be missed."""


class ValueKindError(UsageError, RuntimeError):
    """An OrtValue of another kind (a sequence, a sparse tensor) has no such property."""


class UnwritableError(MissingError, InvalidArgument):
    """A file that a session is to write cannot be written."""


class NoDeviceError(MissingError, RuntimeError):
    """There is no such device here to have a value in its memory."""


class ModelTypeError(UsageError, TypeError):
    """A model cannot be of such a type."""


_KINDS = {kind.code: kind for kind in (UsageError, BadInputError, UnsupportedError, MissingError, CancelledError)}

# By where in a session something went wrong, and its code.
_SITUATIONS = {
    "file": {"bad_input": NoSuchFileError},
    "bytes": {"bad_input": DamagedModelError},
    "model": {"bad_input": InvalidModelError, "unsupported": UnsupportedModelError, "missing": SessionMissingError},
    "argument": {"bad_input": ArgumentError, "unsupported": UnsupportedArgumentError},
    "conversion": {"bad_input": ConversionError},
    "dlpack": {"bad_input": DlpackError},
    "run": {
        "bad_input": RunError,
        "unsupported": UnsupportedRunError,
        "missing": SessionMissingError,
        "cancelled": TerminatedError,
    },
}


def error_of(code, text, where, hint, situation=""):
    """The exception of a kind. The extension module calls this."""
    return _SITUATIONS.get(situation, {}).get(code, _KINDS[code])(text, where, hint)
