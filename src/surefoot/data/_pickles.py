"""Read pickles of plain arrays without running anything that they ask for.

A pickle is a program. The published CIFAR files need three names only to rebuild an array: ``_reconstruct``,
``ndarray`` and ``dtype`` (and ``_codecs.encode`` for bytes in old protocols). Here these names stand for classes that
merely keep what they are told; every other name is refused. The array is then made from its bytes, so that not even
NumPy sees a state that it did not write.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

from surefoot.errors import InputError

Array = np.ndarray[Any, Any]


class _Refused(Exception):
    """The pickle wants more than arrays."""


class _Kept:
    """Keeps the arguments and the state that a pickle gives to a NumPy object."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = ()

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Dtype(_Kept):
    pass


class _Array(_Kept):
    pass


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise _Refused("it encodes text in an unusual way")
    return text.encode("latin1")


_ALLOWED: dict[tuple[str, str], Any] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    ("numpy", "ndarray"): _Kept,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise _Refused(f"it asks for {module}.{name}")
        return _ALLOWED[module, name]


def read_pickle(content: bytes, origin: str) -> Any:
    """Rebuild what a pickle holds, if that is nothing but arrays in lists, tuples and dictionaries.

    Args:
        content: The pickle; text from Python 2 is given as bytes.
        origin: Where it comes from, for error messages.

    Returns:
        What was pickled.

    Raises:
        InputError: If the pickle is damaged or asks for anything else; nothing of it has been run then.

    Example:
        >>> read_pickle(pickle.dumps({"labels": [6, 9]}), "a file")
        {'labels': [6, 9]}
    """
    try:
        return _plain(_Reader(io.BytesIO(content), encoding="bytes").load())
    except _Refused as error:
        raise InputError(
            f"Expected {origin} to hold arrays only, but {error}. Do not trust it; get the published file again."
        ) from error
    except (pickle.UnpicklingError, EOFError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise InputError(f"Expected {origin} to be a whole pickle, but {reason}. Get the file again.") from error
    except (RecursionError, MemoryError, OverflowError, ImportError) as error:
        raise InputError(
            f"Expected {origin} to be a pickle of arrays, but {type(error).__name__}. Get the file again."
        ) from error


def _plain(value: Any) -> Any:
    """Replace what was kept by arrays, all the way down."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    if isinstance(value, _Array):
        return _array(value)
    if isinstance(value, _Kept) or value is _Kept or isinstance(value, type) or callable(value):
        raise _Refused("it holds something that is no array")
    return value


def _array(kept: _Array) -> Array:
    """Make an array from the state (version, shape, dtype, is Fortran order, bytes)."""
    _, shape, dtype, fortran, content = kept.state
    if not isinstance(dtype, _Dtype) or not isinstance(content, bytes):
        raise _Refused("it holds an array of objects")
    code = dtype.arguments[0]
    code = code.decode("ascii") if isinstance(code, bytes) else code
    # The state of a dtype begins (version, byte order, …); one byte has no order.
    order = dtype.state[1] if len(dtype.state) > 1 else "|"
    order = order.decode("ascii") if isinstance(order, bytes) else order
    made = np.dtype(code)
    if made.kind not in "biuf" or order not in "<>|=":
        raise _Refused(f"it holds an array of {code}")
    made = np.dtype(("=" if order == "|" else order) + made.str[1:])
    if not all(isinstance(size, int) and size >= 0 for size in shape) or math.prod(shape) * made.itemsize != len(
        content
    ):
        raise ValueError(f"an array of shape {shape} has {len(content)} bytes")
    return np.frombuffer(content, made).reshape(shape, order="F" if fortran else "C")
