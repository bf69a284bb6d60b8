"""Arguments and memory of captured dispatches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from ._results import Rows, Shown

if TYPE_CHECKING:
    import numpy as np

    from ._capture import Dispatch

#: NumPy's types of elements; bits are unsigned integers.
_TYPES = {"b8": "u1", "b16": "u2", "b32": "u4", "b64": "u8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8"}
_TYPES.update({"u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "f16": "f2", "f32": "f4", "f64": "f8"})


def _element(name: str) -> np.dtype[Any]:
    """NumPy's type for an element type; for bf16 that of ml_dtypes, if it is installed."""
    import numpy as np

    if name == "bf16":
        try:
            import ml_dtypes
        except ImportError:
            return np.dtype("<u2")
        kind: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return kind
    return np.dtype("<" + _TYPES[name])


@dataclass(frozen=True)
class Argument:
    """An argument that the application gave to a kernel."""

    #: Its name in the source, or ``arg`` and its number.
    name: str
    number: str
    #: Its type in the source, if the compiler kept that.
    type_name: Optional[str]
    #: ``by_value``, ``global_buffer`` and others of the code object's metadata.
    kind: str
    offset: int
    size: int
    #: Of a number: ``f32``, ``i32`` …, or bits like ``b32`` if its type is not known.
    element_type: Optional[str]
    #: Its bytes; None if the capture does not have them.
    raw: Optional[bytes]

    @property
    def value(self) -> Any:
        """An address as an integer, a number as a scalar of NumPy, and the bytes of anything else."""
        import numpy as np

        if self.raw is None:
            return None
        if self.kind == "by_value":
            return self.raw if self.element_type is None else np.frombuffer(self.raw, _element(self.element_type))[0]
        return int.from_bytes(self.raw, "little") if self.size == 8 else self.raw

    def view(self, dtype: Any) -> Any:
        """The bytes as a scalar of another type: ``argument.view("f4")``."""
        import numpy as np

        if self.raw is None:
            raise ValueError(f"the capture does not have argument {self.name}")
        return np.frombuffer(self.raw, dtype)[0]


@dataclass(frozen=True)
class Buffer(Shown):
    """A piece of captured memory with a name."""

    #: An argument's name, a variable's, or an address.
    name: str
    address: int
    size: int
    element_type: str
    #: False if nothing but its address names it.
    named: bool

    def _row(self) -> dict[str, object]:
        return {"name": self.name, "address": f"{self.address:#x}", "bytes": self.size, "type": self.element_type}


class Memory(Mapping[str, "np.ndarray[Any, Any]"]):
    """The memory before or after a kernel: arrays by the names of buffers. Arrays are read-only.

    Names are those of arguments and variables. Other memory is there, too: ``dispatch.buffers`` has its addresses, which are
    its names. What the file has uncompressed is mapped, not copied; the rest is decoded when it is asked for.
    """

    def __init__(self, dispatch: Dispatch, is_after: bool) -> None:
        self._dispatch = dispatch
        self._is_after = is_after
        ranges = dispatch.capture._native.ranges(dispatch.index, is_after)
        held = [] if ranges is None else ranges
        self._buffers = {
            buffer.name: buffer
            for buffer in (dispatch.buffers if held else [])
            if any(start <= buffer.address and buffer.address + buffer.size <= end for start, end in held)
        }

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        buffer = self._known(name)
        dtype = _element(buffer.element_type)
        if buffer.size % dtype.itemsize:
            return self.view(name, "u1")
        return self.view(name, dtype)

    def __iter__(self) -> Iterator[str]:
        return (name for name, buffer in self._buffers.items() if buffer.named)

    def __len__(self) -> int:
        return sum(buffer.named for buffer in self._buffers.values())

    def __repr__(self) -> str:
        when = "after" if self._is_after else "before"
        return f"<memory {when} dispatch {self._dispatch.id}: {', '.join(self)}>"

    def _repr_html_(self) -> str:
        return Rows(self._buffers.values())._repr_html_()

    def view(self, name: str, dtype: Any, shape: Optional[Sequence[int]] = None) -> np.ndarray[Any, Any]:
        """A buffer with elements of a type. With a shape, the elements behind it are left out.

        >>> capture = logdur.Capture("app.ldcap")
        >>> out = capture.dispatches[0].after.view("arg1", "f4", (128, 128))
        >>> out.shape, out.flags.writeable
        ((128, 128), False)
        """
        import numpy as np

        buffer = self._known(name)
        kind = np.dtype(dtype)
        count = buffer.size // kind.itemsize
        if shape is not None:
            wanted = int(np.prod(shape))
            if wanted > count:
                raise ValueError(f"{name}: expected at most {count} elements of {kind}, found the shape {tuple(shape)}")
            count = wanted
        array = self._array(buffer, kind, count)
        return array if shape is None else array.reshape(shape)

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, as the application had it."""
        capture = self._dispatch.capture
        return capture._native.memory(self._dispatch.index, self._is_after, address, size)

    def is_mapped(self, name: str) -> bool:
        """True if the array of a buffer is the file's memory, and no copy."""
        buffer = self._known(name)
        return self._offset(buffer, buffer.size) is not None

    def _offset(self, buffer: Buffer, size: int) -> Optional[int]:
        native = self._dispatch.capture._native
        return native.file_offset(self._dispatch.index, self._is_after, buffer.address, size)

    def _array(self, buffer: Buffer, kind: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
        import numpy as np

        size = count * kind.itemsize
        offset = self._offset(buffer, size) if size else None
        if offset is not None:
            return np.frombuffer(self._dispatch.capture._map(), kind, count, offset)
        return np.frombuffer(self.read(buffer.address, size), kind, count)

    def _known(self, name: str) -> Buffer:
        if name in self._buffers:
            return self._buffers[name]
        for argument in self._dispatch.arguments.values():
            # Buffers are named by the argument; its number is good, too.
            if argument.number == name and argument.name in self._buffers:
                return self._buffers[argument.name]
        when = "after" if self._is_after else "before"
        raise KeyError(f"{name!r}: expected memory {when} dispatch {self._dispatch.id}: {', '.join(self._buffers)}")
