"""Everything that surefoot raises on purpose.

::

    SurefootError                the message is one line and names the next step
    ├── InputError               what was passed in cannot be used            (exit code 2)
    │   ├── UnknownNameError     no such optimizer, loss, data set …
    │   ├── OptionError          a part does not take that option or value
    │   ├── UntrustedError       a received file names code that would run
    │   └── SplitError           a calibrator meets a split it must not see
    ├── ShiftError               new data differ in a way that nothing can be said of (exit code 1)
    └── RunError                 the run itself failed                        (exit code 1)
        ├── DivergedError        a loss or gradient stopped being finite
        ├── StoppedError         a search does not think it worth going on with
        └── BusyError            another process is writing the same run folder

    PartsWarning                 the parts of an installed package are left out
"""

from __future__ import annotations


class SurefootError(Exception):
    """Base of every error raised on purpose."""

    exit_code = 1
    is_told_elsewhere = False  # by another process that trains the same run and failed first


class InputError(SurefootError):
    """What was passed in cannot be used."""

    exit_code = 2


class UnknownNameError(InputError):
    """Nothing is registered under this name."""


class OptionError(InputError):
    """A part does not take this option, or not this value."""


class UntrustedError(InputError):
    """A received file names code that nobody here has asked for."""


class SplitError(InputError):
    """A calibrator meets a split that it must not see."""


class ShiftError(SurefootError):
    """New data differ from the reference in a way that it says nothing about."""


class RunError(SurefootError):
    """A run failed while it was going on."""


class DivergedError(RunError):
    """A loss or a gradient is no longer finite."""


class StoppedError(RunError):
    """A search has stopped a run that others are ahead of."""


class BusyError(RunError):
    """Another process is writing the same run folder."""


class PartsWarning(UserWarning):
    """An installed package declares parts that cannot be used."""
