"""What replays, measurements and analyses found."""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Optional, TypeVar

from . import _frames

R = TypeVar("R", bound="Shown")
T = TypeVar("T", bound="Result")


def _of(kind: Any, members: dict[str, Any], /, **more: Any) -> Any:
    """An object whose fields are the members of the same names."""
    known = {one.name for one in fields(kind)}
    values = {name: value for name, value in members.items() if name in known and name not in more}
    return kind(**values, **more)


class Shown:
    """What is a row of a table in a notebook."""

    def _row(self) -> dict[str, object]:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return _table([self._row()])


class Result(Shown):
    """What was found of a dispatch."""


class Rows(list[R], Generic[R]):
    """A list that is a table in a notebook."""

    def _repr_html_(self) -> str:
        return _table([one._row() for one in self])


class Results(Rows[T], Generic[T]):
    """What was found of each dispatch."""

    @property
    def passed(self) -> bool:
        """True if each passed."""
        return all(getattr(one, "passed", False) for one in self)


def _table(rows: list[dict[str, object]]) -> str:
    def cells(tag: str, row: Iterable[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row) + "</tr>"

    head = cells("th", rows[0]) if rows else ""
    return "<table>" + head + "".join(cells("td", row.values()) for row in rows) + "</table>"


@dataclass(frozen=True)
class Difference:
    """The first element of a buffer that is not as it should be."""

    index: int
    address: int
    before: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"[{self.index}]: expected {self.expected}, found {self.found}"


@dataclass(frozen=True)
class BufferResult:
    """What was found of a buffer: docs/agents.md explains the verdicts."""

    name: str
    verdict: str
    type: str
    written: int
    replayed: int
    mismatches: int
    masked: int
    max_abs: Any
    max_rel: Any
    max_ulp: Optional[int]
    first: Optional[Difference]

    @staticmethod
    def of(raw: dict[str, Any]) -> BufferResult:
        """Of an object of ``buffers[]``."""
        first = raw.get("first")
        found: BufferResult = _of(BufferResult, raw, first=None if first is None else _of(Difference, first))
        return found


@dataclass(frozen=True)
class Replayed(Result):
    """A dispatch that ran again, and what it wrote compared with what the application got."""

    dispatch: int
    kernel: str
    #: ``PASS``, ``PASS (qualified)``, ``FAIL`` and others.
    result: str
    status: int
    #: Why a PASS proves less than it could.
    qualified: list[str]
    placed: str
    emulated: bool
    product: str
    #: How long the kernel took in each repetition, in nanoseconds.
    gpu_ns: list[int]
    #: How long it took in the application.
    recorded_ns: Optional[int]
    buffers: list[BufferResult] = field(repr=False)
    #: Everything that the tool said.
    raw: dict[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: dict[str, Any]) -> Replayed:
        """Of a line of ``omniprobe verify --json``."""
        buffers = [BufferResult.of(one) for one in raw["buffers"]]
        times = [repetition["gpu_ns"] for repetition in raw["repetitions"]]
        found: Replayed = _of(Replayed, raw, kernel=raw["demangled"], gpu_ns=times, buffers=buffers, raw=raw)
        return found

    @property
    def passed(self) -> bool:
        """True for a PASS, also a qualified one."""
        return self.result.startswith("PASS")

    def buffer(self, name: str) -> BufferResult:
        """What was found of the buffer with a name."""
        for one in self.buffers:
            if one.name == name:
                return one
        raise KeyError(f"{name!r}: expected one of {', '.join(one.name for one in self.buffers)}")

    def _row(self) -> dict[str, object]:
        wrong = next((one for one in self.buffers if one.first is not None and one.mismatches), None)
        first = "" if wrong is None or wrong.first is None else f"{wrong.name}[{wrong.first.index}]"
        return {"dispatch": self.dispatch, "kernel": self.kernel, "result": self.result, "first difference": first}


@dataclass(frozen=True)
class Timing:
    """Durations in nanoseconds: the median with its interval of 95 %."""

    runs: int
    median_ns: float
    low_ns: float
    high_ns: float
    min_ns: float
    mad_ns: float
    p95_ns: float
    bimodal: bool


@dataclass(frozen=True)
class Side:
    """One of the kernels that were measured."""

    result: str
    qualified: list[str]
    replaced_from: Optional[str]
    #: None if the kernel computes something else, and was not measured.
    gpu: Optional[Timing]
    gpu_ns: list[int] = field(repr=False)
    buffers: list[BufferResult] = field(repr=False)

    @staticmethod
    def of(raw: dict[str, Any]) -> Side:
        """Of an object of ``sides[]``."""
        gpu = None if raw["gpu"] is None else _of(Timing, raw["gpu"])
        found: Side = _of(Side, raw, gpu=gpu, buffers=[BufferResult.of(one) for one in raw["buffers"]])
        return found

    @property
    def passed(self) -> bool:
        """True if the kernel computed what the application got."""
        return self.result.startswith("PASS")


@dataclass(frozen=True)
class Compared:
    """Two kernels that ran in alternation: the second's durations by the first's."""

    ratio: float
    pairs: int
    p: float
    verdict: str


@dataclass(frozen=True)
class Measured(Result):
    """How long a dispatch takes."""

    dispatch: int
    kernel: str
    status: int
    emulated: bool
    product: str
    recorded_ns: Optional[int]
    sides: list[Side]
    compared: Optional[Compared]
    #: Everything that the tool said.
    raw: dict[str, Any] = field(repr=False, compare=False)

    @staticmethod
    def of(raw: dict[str, Any]) -> Measured:
        """Of a line of ``omniprobe bench --json``."""
        sides = [Side.of(side) for side in raw["sides"]]
        compared = None if raw["compared"] is None else _of(Compared, raw["compared"])
        found: Measured = _of(Measured, raw, kernel=raw["demangled"], sides=sides, compared=compared, raw=raw)
        return found

    @property
    def passed(self) -> bool:
        """True if each kernel computed what the application got."""
        return all(side.passed for side in self.sides)

    @property
    def median_ns(self) -> Optional[float]:
        """The median of the first kernel."""
        gpu = self.sides[0].gpu
        return None if gpu is None else gpu.median_ns

    def _row(self) -> dict[str, object]:
        row: dict[str, object] = {"dispatch": self.dispatch, "kernel": self.kernel}
        for name, side in zip("AB", self.sides):
            row[f"{name} result"] = side.result
            row[f"{name} median ns"] = "" if side.gpu is None else f"{side.gpu.median_ns:.0f}"
        if self.compared is not None:
            row["B/A"] = f"{self.compared.ratio:.4f}"
            row["verdict"] = self.compared.verdict
        return row


@dataclass(frozen=True)
class Analysis(Result):
    """What the instructions of a dispatch do. docs/analysis.md explains the members."""

    dispatch: int
    kernel: str
    processor: str
    workgroups: int
    totals: dict[str, Any]
    instructions: list[dict[str, Any]] = field(repr=False)
    lines: list[dict[str, Any]] = field(repr=False)
    findings: list[dict[str, Any]]
    blocks: list[dict[str, Any]] = field(default_factory=list, repr=False)
    heat: list[dict[str, Any]] = field(default_factory=list, repr=False)
    occupancy: Optional[dict[str, Any]] = None
    #: Everything that the tool said.
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def of(raw: dict[str, Any]) -> Analysis:
        """Of a line of ``omniprobe analyze --json``."""
        found: Analysis = _of(Analysis, raw, raw=raw)
        return found

    @property
    def passed(self) -> bool:
        """True without findings."""
        return not self.findings

    def frame(self, part: str = "instructions", *, engine: Optional[str] = None) -> Any:
        """A part as a data frame: ``instructions``, ``lines``, ``blocks``, ``heat`` or ``findings``."""
        parts = {name: getattr(self, name) for name in ("instructions", "lines", "blocks", "heat", "findings")}
        if part not in parts:
            raise ValueError(f"part: expected one of {', '.join(parts)}, found {part!r}")
        return _frames.of_rows([_flat(one) for one in parts[part]], _frames.engine(engine))

    def _row(self) -> dict[str, object]:
        return {
            "dispatch": self.dispatch,
            "kernel": self.kernel,
            "processor": self.processor,
            "instructions": self.totals.get("instructions", ""),
            "findings": len(self.findings),
        }


def _flat(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Members of members as ``outer.inner``; lists as they are."""
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        if isinstance(inner, dict):
            flat.update(_flat(inner, f"{prefix}{name}."))
        else:
            flat[prefix + name] = inner
    return flat
