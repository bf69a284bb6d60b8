"""Captures: dispatches with their arguments, their memory and their code."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import mmap
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Callable, Optional, TypeVar, Union

from . import _native, _progress, _tool
from ._errors import CaptureError, OptionError, ToolError
from ._memory import Argument, Buffer, Memory
from ._results import Analysis, Measured, Replayed, Result, Results, Rows, Shown

if TYPE_CHECKING:
    import numpy as np

#: A path.
Path = Union[str, "os.PathLike[str]"]
#: Other code: a file, its bytes, ``captured`` or ``original``; or one of these for each name of a kernel.
Code = Union[Path, bytes, Mapping[str, Union[Path, bytes]]]
#: Sizes in x, y and z, in work-items.
Size = Union[int, Sequence[int]]
#: ``out=f16:rel=1e-2``, several of them, or the part behind ``=`` for each buffer.
Tolerance = Union[str, Sequence[str], Mapping[str, str]]

R = TypeVar("R", bound=Result)

#: Statuses that are results: mismatch, incomplete (with ``strict``), inconclusive, nothing to compare.
_JUDGED = (6, 9, 10, 11)
#: Of analyses: findings.
_FOUND = (6,)


def check_options(method: str, options: Iterable[str]) -> None:
    """Raises :class:`OptionError` for what is no option of a method of :class:`Capture` that replays a dispatch."""
    known = [name for name in inspect.signature(getattr(Capture, method)).parameters if name not in ("self", "dispatch")]
    wrong = [name for name in options if name not in known]
    if wrong:
        near = difflib.get_close_matches(wrong[0], known, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected {', '.join(known)}"
        raise OptionError(f"{method}: there is no option {wrong[0]!r}; {hint}")


@dataclass(frozen=True)
class CodeObject(Shown):
    """A code object of a capture."""

    capture: Capture = field(repr=False, compare=False)
    #: The BLAKE3 hash of its bytes.
    id: str
    size: int
    #: Its target, like ``amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-``.
    isa: str
    uri: str
    #: The symbols of its kernels that the application asked for.
    kernels: list[str]

    def read(self) -> bytes:
        """Its bytes: an ELF file."""
        return self.capture._native.code_object(self.id)

    def save(self, path: Path) -> None:
        """Writes it to a file."""
        with open(path, "wb") as file:
            file.write(self.read())

    def _row(self) -> dict[str, object]:
        return {"id": self.id, "size": self.size, "isa": self.isa, "uri": self.uri, "kernels": len(self.kernels)}


@dataclass(frozen=True)
class Dispatch(Shown):
    """A captured launch of a kernel."""

    capture: Capture = field(repr=False, compare=False)
    index: int = field(repr=False)
    #: Its number in the process: the ``id`` of its row.
    id: int
    #: The kernel's demangled name.
    kernel: str
    symbol: str
    occurrence: int
    #: Work-items in x, y and z.
    grid: tuple[int, int, int]
    workgroup: tuple[int, int, int]
    lds_bytes: int
    start_ns: int
    end_ns: int
    #: What of the memory was captured: ``Kernarg``, ``Args``, ``Reachable`` or ``All``.
    scope: str
    #: The code object that ran.
    code_object: str
    #: The application's own, if another ran in its place.
    replaced: Optional[str]

    @property
    def duration_ns(self) -> Optional[int]:
        """How long the kernel ran in the application; ``None`` if it has no times, as one that did not end."""
        return max(0, self.end_ns - self.start_ns) if self.start_ns and self.end_ns else None

    @property
    def arguments(self) -> dict[str, Argument]:
        """The arguments by their names.

        >>> capture = logdur.Capture("app.ldcap")
        >>> arguments = capture.dispatches[0].arguments
        >>> arguments["arg1"].kind, int(arguments["arg2"].value)
        ('global_buffer', 16384)
        """
        records = self.capture._native.arguments(self.index)
        return {record["name"]: Argument(**record) for record in records}

    @property
    def buffers(self) -> Rows[Buffer]:
        """The pieces of captured memory, by address."""
        rules = [f"{name}={kind}" for name, kind in self.capture.types.items()]
        return Rows(Buffer(**record) for record in self.capture._native.buffers(self.index, rules))

    @property
    def before(self) -> Memory:
        """The memory before the kernel; empty if it was not captured."""
        return Memory(self, False)

    @property
    def after(self) -> Memory:
        """The memory after the kernel; empty if it was not captured."""
        return Memory(self, True)

    @property
    def lacks(self) -> list[str]:
        """What a replay needs and the capture lacks, a line each."""
        return self.capture._native.lacks(self.index)

    def replay(self, **options: Any) -> Replayed:
        """As :meth:`Capture.replay`, of this dispatch."""
        check_options("replay", options)
        return self._only(self.capture.replay(dispatch=self.id, **options))

    def verify(self, **options: Any) -> Replayed:
        """As :meth:`Capture.verify`, of this dispatch."""
        check_options("verify", options)
        return self._only(self.capture.verify(dispatch=self.id, **options))

    def bench(self, **options: Any) -> Measured:
        """As :meth:`Capture.bench`, of this dispatch."""
        check_options("bench", options)
        return self._only(self.capture.bench(dispatch=self.id, **options))

    def analyze(self, **options: Any) -> Analysis:
        """As :meth:`Capture.analyze`, of this dispatch."""
        check_options("analyze", options)
        return self._only(self.capture.analyze(dispatch=self.id, **options))

    def measure(self, **options: Any) -> float:
        """The median duration in nanoseconds of a kernel that computes what the application got; options as for :meth:`bench`.

        Raises :class:`ToolError` with the status of the mismatch if it computes something else.
        """
        measured = self.bench(**options)
        side = measured.sides[0]
        if side.gpu is None or not side.passed:
            wrong = next((one for one in side.buffers if one.first is not None), None)
            where = "" if wrong is None else f": {wrong.name}{wrong.first}"
            raise ToolError(f"dispatch {self.id}: {side.result}{where}", measured.status or 6, [measured])
        return side.gpu.median_ns

    def _only(self, results: Sequence[R]) -> R:
        return results[0]

    def _row(self) -> dict[str, object]:
        grid, workgroup = ("x".join(map(str, size)) for size in (self.grid, self.workgroup))
        row = {"id": self.id, "kernel": self.kernel, "grid": grid, "workgroup": workgroup, "ns": self.duration_ns}
        return {**row, "scope": self.scope}


class Capture:
    """A capture file.

    ``backend="emu"`` replays on the emulated GPU without any runtime. ``emulate="gfx90a"`` emulates a GPU under the runtime.
    ``rocm`` is the folder of a ROCm, ``device`` a GPU's position. ``types`` has the element types of buffers that the code
    object does not tell, like ``{"out": "f16"}``. ``capture_store`` is the folder of the capture's contents, if it is not where the
    capture says.

    >>> capture = logdur.Capture("app.ldcap", backend="emu")
    >>> capture
    <capture app.ldcap: 1 dispatches of smooth>
    >>> capture.verify().passed
    True
    """

    def __init__(
        self,
        path: Path,
        *,
        backend: Optional[str] = None,
        emulate: Optional[str] = None,
        rocm: Optional[Path] = None,
        device: Optional[int] = None,
        types: Optional[Mapping[str, str]] = None,
        capture_store: Optional[Path] = None,
    ) -> None:
        if backend is not None and backend not in _native.backends():
            raise ValueError(f"backend: expected one of {', '.join(_native.backends())}, found {backend!r}")
        for name in (emulate or "").split(","):
            if emulate is not None and name.split(":")[0] not in _native.processors():
                raise ValueError(f"emulate: expected one of {', '.join(_native.processors())}, found {name!r}")
        self.path = os.path.abspath(path)
        #: What was given for each dispatch that is replayed.
        self.place = {"backend": backend, "emulate": emulate, "rocm": rocm, "device": device}
        store = None if capture_store is None else os.path.abspath(capture_store)
        self.place["capture_store"] = store
        self.types = dict(types or {})
        # Its error names the file as Python does.
        with open(path, "rb"):
            self._native = _native.Capture(self.path, store)
        self._mapped: Optional[mmap.mmap] = None

    def __reduce__(self) -> tuple[Callable[..., Capture], tuple[object, ...]]:
        return _opened, (self.path, self.place, self.types)

    def __repr__(self) -> str:
        dispatches = self.dispatches
        kernels = list(dict.fromkeys(one.kernel for one in dispatches))
        shown = ", ".join(kernels[:3]) + (" …" if len(kernels) > 3 else "")
        return f"<capture {os.path.basename(self.path)}: {len(dispatches)} dispatches of {shown}>"

    def _repr_html_(self) -> str:
        return self.dispatches._repr_html_()

    @property
    def version(self) -> tuple[int, int]:
        """The version of the file's format."""
        return self._native.version()

    @property
    def is_finished(self) -> bool:
        """True if its writer came to its end."""
        return self._native.is_finished()

    @property
    def problems(self) -> list[str]:
        """What is damaged or was cut off, a line each. The rest can be read.

        Every byte of the file is looked at, when it is first asked.
        """
        return self._native.problems()

    @property
    def notes(self) -> list[dict[str, Any]]:
        """What the capture says is missing: ``severity``, ``code``, ``text``, ``dispatch``."""
        return self._native.notes()

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """The processes: ``pid``, ``rank``, ``host``, ``exe``, ``arguments`` and others."""
        return self._native.sessions()

    @property
    def agents(self) -> list[dict[str, Any]]:
        """The GPUs: ``isa``, ``product``, ``emulated`` and others."""
        return self._native.agents()

    @property
    def dispatches(self) -> Rows[Dispatch]:
        """The captured dispatches."""
        return Rows(
            Dispatch(self, **{**record, "grid": tuple(record["grid"]), "workgroup": tuple(record["workgroup"])})
            for record in self._native.dispatches()
        )

    @property
    def code_objects(self) -> Rows[CodeObject]:
        """The code objects."""
        return Rows(CodeObject(self, **record) for record in self._native.code_objects())

    def dispatch(self, id: int) -> Dispatch:
        """The dispatch with a number, the ``id`` of its row."""
        dispatches = self.dispatches
        for one in dispatches:
            if one.id == id:
                return one
        known = ", ".join(str(one.id) for one in dispatches)
        raise KeyError(f"{self.path}: expected a dispatch of {known}, found {id}")

    def replay(
        self,
        *,
        dispatch: Optional[int] = None,
        kernel: Optional[str] = None,
        hsaco: Optional[Code] = None,
        grid: Optional[Size] = None,
        workgroup: Optional[Size] = None,
        lds: Optional[int] = None,
        tol: Optional[Tolerance] = None,
        repetitions: Optional[int] = None,
        timeout: Optional[float] = None,
        compare: bool = True,
        progress: Optional[bool] = None,
    ) -> Results[Replayed]:
        """Runs dispatches again, and compares the first repetitions with what the application got.

        ``kernel`` is a regular expression for names, ``dispatch`` a number. ``hsaco`` is other code: a file, bytes, or one of
        them for each name of a kernel. ``lds`` is other dynamic LDS: bytes beyond those that the code declares, like Triton's
        ``shared``. ``tol`` has types and tolerances of buffers, like ``{"out": "f16:rel=1e-2"}``. A difference is a
        result. Faults, time-outs and unusable files raise :class:`ToolError`.
        """
        with self._options(dispatch, kernel, hsaco, (grid, workgroup, lds), tol, timeout) as options:
            options += _repeated(repetitions) + ([] if compare else ["--no-verify"])
            return self._run("replay", options, _JUDGED, Replayed.of, progress)

    def verify(
        self,
        *,
        dispatch: Optional[int] = None,
        kernel: Optional[str] = None,
        hsaco: Optional[Code] = None,
        grid: Optional[Size] = None,
        workgroup: Optional[Size] = None,
        lds: Optional[int] = None,
        tol: Optional[Tolerance] = None,
        repetitions: Optional[int] = None,
        timeout: Optional[float] = None,
        strict: bool = False,
        progress: Optional[bool] = None,
    ) -> Results[Replayed]:
        """Runs dispatches again, and compares every repetition. Options are those of :meth:`replay`.

        With ``strict``, a qualified PASS has the status 9.
        """
        with self._options(dispatch, kernel, hsaco, (grid, workgroup, lds), tol, timeout) as options:
            options += _repeated(repetitions) + (["--strict"] if strict else [])
            return self._run("verify", options, _JUDGED, Replayed.of, progress)

    def bench(
        self,
        *,
        dispatch: Optional[int] = None,
        kernel: Optional[str] = None,
        hsaco: Optional[Code] = None,
        compare: Optional[tuple[Union[Path, bytes], Union[Path, bytes]]] = None,
        grid: Optional[Size] = None,
        workgroup: Optional[Size] = None,
        lds: Optional[int] = None,
        tol: Optional[Tolerance] = None,
        repetitions: Optional[int] = None,
        warm_up: Optional[int] = None,
        target_ci: Optional[float] = None,
        timeout: Optional[float] = None,
        progress: Optional[bool] = None,
    ) -> Results[Measured]:
        """Measures dispatches. Each kernel is verified before it is timed.

        ``compare`` has two files whose kernels run in alternation; ``captured`` is the kernel that ran. ``target_ci=0.01``
        stops when half of the interval of the median is at most 1 % of it. Other options are those of :meth:`replay`.
        """
        with self._options(dispatch, kernel, hsaco, (grid, workgroup, lds), tol, timeout) as options, _files() as file:
            options += _repeated(repetitions)
            options += [] if warm_up is None else [f"--warm-up={warm_up}"]
            options += [] if target_ci is None else [f"--target-ci={target_ci}"]
            options += [] if compare is None else ["--compare", *(file(code) for code in compare)]
            return self._run("bench", options, _JUDGED, Measured.of, progress)

    def analyze(
        self,
        *,
        dispatch: Optional[int] = None,
        kernel: Optional[str] = None,
        hsaco: Optional[Code] = None,
        grid: Optional[Size] = None,
        workgroup: Optional[Size] = None,
        lds: Optional[int] = None,
        what: Union[str, Sequence[str], None] = None,
        check: Union[str, Sequence[str], None] = None,
        workgroups: Union[int, str, None] = None,
        timeout: Optional[float] = None,
        progress: Optional[bool] = None,
    ) -> Results[Analysis]:
        """Runs dispatches on the emulated GPU, and says what their instructions do.

        ``what`` and ``check`` are the words of ``omniprobe analyze``; ``check="all"`` is every check. Findings are a result.
        """
        with self._options(dispatch, kernel, hsaco, (grid, workgroup, lds), None, timeout, with_place=False) as options:
            for name, words in (("--what", what), ("--check", check)):
                if words is not None:
                    options.append(f"{name}={words if isinstance(words, str) else ','.join(words)}")
            options += [] if workgroups is None else [f"--workgroups={workgroups}"]
            return self._run("analyze", options, _FOUND, Analysis.of, progress)

    def _run(
        self,
        command: str,
        options: list[str],
        answers: Sequence[int],
        of: Callable[[dict[str, Any]], R],
        progress: Optional[bool],
    ) -> Results[R]:
        results: Results[R] = Results()
        errors: list[dict[str, Any]] = []
        bar = _progress.bar(self._count(options), "dispatches", progress)

        def take(raw: dict[str, Any]) -> None:
            if "error" in raw:
                errors.append(raw)
            else:
                results.append(of(raw))
            bar.update()

        try:
            _tool.lines([command, self.path, "--json", "--quiet", *options], answers, take)
        except ToolError as error:
            error.results = list(results)
            raise
        finally:
            bar.close()
        if errors:
            first = errors[0]
            raise ToolError(f"{self.path}: dispatch {first['dispatch']}: {first['error']}", first["status"], list(results))
        return results

    def _count(self, options: Sequence[str]) -> Optional[int]:
        if any(option.startswith("--dispatch=") for option in options):
            return 1
        return None if any(option.startswith("--kernel=") for option in options) else len(self._native.dispatches())

    @contextlib.contextmanager
    def _options(
        self,
        dispatch: Optional[int],
        kernel: Optional[str],
        hsaco: Optional[Code],
        launch: tuple[Optional[Size], Optional[Size], Optional[int]],
        tol: Optional[Tolerance],
        timeout: Optional[float],
        with_place: bool = True,
    ) -> Iterator[list[str]]:
        """Options of the command line; bytes of code are files as long as they are used."""
        given: dict[str, object] = {"--dispatch": dispatch, "--kernel": kernel, "--timeout": timeout}
        grid, workgroup, lds = launch
        given.update({"--grid": _size(grid), "--workgroup": _size(workgroup), "--lds": lds})
        # Other options of the place are for replays.
        names = self.place if with_place else ["capture_store"]
        given.update({f"--{name.replace('_', '-')}": self.place[name] for name in names})
        options = [f"{name}={value}" for name, value in given.items() if value is not None]
        if with_place:
            options += [f"--tol={rule}" for rule in _rules(tol, self.types)]
        with _files() as file:
            if isinstance(hsaco, Mapping):
                options += [f"--hsaco={name}={file(code)}" for name, code in hsaco.items()]
            elif hsaco is not None:
                word = file(hsaco)
                options.append(f"--hsaco={word}" if word in _WORDS else f"--hsaco=all={word}")
            yield options

    def _map(self) -> mmap.mmap:
        """The file in memory."""
        if self._mapped is None:
            with open(self.path, "rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._mapped


def _opened(path: str, place: dict[str, Any], types: dict[str, str]) -> Capture:
    """A capture that comes from another process."""
    return Capture(path, **place, types=types)


#: Code that the capture has.
_WORDS = ("captured", "original")


@contextlib.contextmanager
def _files() -> Iterator[Callable[[Union[Path, bytes]], str]]:
    """Makes paths of code: bytes are written into files that are removed at the end."""
    with contextlib.ExitStack() as stack:

        def path(code: Union[Path, bytes]) -> str:
            if isinstance(code, (bytes, bytearray, memoryview)):
                file = stack.enter_context(tempfile.NamedTemporaryFile(prefix="logdur-", suffix=".hsaco"))
                file.write(code)
                file.flush()
                return file.name
            text = os.fspath(code)
            return text if text in _WORDS else os.path.abspath(text)

        yield path


def _size(size: Optional[Size]) -> Optional[str]:
    if size is None:
        return None
    return str(size) if isinstance(size, int) else ",".join(str(int(one)) for one in size)


def _rules(tol: Optional[Tolerance], types: Mapping[str, str]) -> list[str]:
    """Rules of ``tol``, and the types of buffers that it does not name."""
    if tol is None:
        rules = []
    elif isinstance(tol, str):
        rules = [tol]
    elif isinstance(tol, Mapping):
        rules = [f"{name}={rule}" for name, rule in tol.items()]
    else:
        rules = list(tol)
    named = {rule.split("=", 1)[0] for rule in rules}
    return rules + [f"{name}={kind}" for name, kind in types.items() if name not in named]


def _repeated(repetitions: Optional[int]) -> list[str]:
    return [] if repetitions is None else [f"--repetitions={repetitions}"]


__all__ = ["Argument", "Buffer", "Capture", "CaptureError", "CodeObject", "Dispatch", "Memory"]
