"""The tools of the server for agents: what each takes, the command of ``omniprobe`` that it runs, and its result."""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Optional, Union

from . import _native, _tool
from ._bounded import Kept, Ran, fit, run

#: Bytes of JSON of one command at most. More is left out.
_JSON = 64 << 20
#: Bytes of a message of `omniprobe` at most.
_MESSAGES = 8192
#: Bytes for notes on what is cut.
_NOTES = 1024
#: Rows of a summary, if nothing else is asked for.
_TOP = 20
#: Members of an analysis that are as long as the code or the memory.
_DETAILS = ("instructions", "lines", "blocks", "heat")

Schema = dict[str, Any]


class ToolFailure(Exception):
    """Why a call has no result."""


@dataclass(frozen=True)
class Limits:
    """What a call may have."""

    #: Folders that have all files.
    roots: list[Path]
    #: Seconds.
    seconds: float
    #: Bytes of a result.
    size: int

    def path(self, text: str, what: str) -> Path:
        """A path below one of the folders, whole, without links.

        :raises ToolFailure: for any other.
        """
        whole = Path(os.path.realpath(self.roots[0] / text))
        if not any(whole == root or root in whole.parents for root in self.roots):
            folders = ", ".join(map(str, self.roots))
            raise ToolFailure(f"{what}: expected a path below {folders}, found {text}")
        return whole


@dataclass(frozen=True)
class Argument:
    """An argument of a tool."""

    schema: Schema
    #: The option of `omniprobe` that gets it; without one, the tool does.
    option: str = ""
    #: ``value``, ``flag``, ``path``, ``each`` (the option again for each), ``paths`` or ``code`` (``NAME=PATH`` each).
    kind: str = "value"


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _integer(description: str, least: int = 0) -> Schema:
    return {"type": "integer", "description": description, "minimum": least}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _list(description: str, of: Optional[Schema] = None, least: int = 0) -> Schema:
    return {"type": "array", "items": of or {"type": "string"}, "description": description, "minItems": least}


_COMMAND = Argument(_list("The application and its arguments. It runs as the server's user, without a shell.", least=1))
_ENVIRONMENT = Argument(
    {"type": "object", "additionalProperties": {"type": "string"}, "description": "Variables of the application."}
)
_FOLDER = Argument(_text("The folder that it runs in."))
_EMULATE = Argument(_text("Run on an emulated GPU, like gfx90a, gfx906 or 2*gfx90a; no GPU is needed."), "--emulate")

_CAPTURE = Argument(_text("The capture, a .ldcap file."))
_DISPATCHES = {
    "kernel": Argument(_text("Only dispatches of kernels whose name matches this regular expression."), "--kernel"),
    "dispatch": Argument(_list("Only dispatches with these numbers.", {"type": "integer", "minimum": 0}), "--dispatch", "each"),
}
_CODE = Argument(
    _list("Other kernels: all=FILE, NAME=FILE for a kernel, or captured or original."), "--hsaco", "code"
)
_GEOMETRY = {
    "grid": Argument(_text("Another grid in work-items, X,Y,Z."), "--grid"),
    "workgroup": Argument(_text("Another workgroup in work-items, X,Y,Z."), "--workgroup"),
    "lds": Argument(_integer("Other dynamic LDS in bytes."), "--lds"),
}
_DEVICE = {
    "backend": Argument(
        _text("rocm: a GPU under the ROCm runtime (the default); emu: the emulated GPU, without a runtime.", enum=["rocm", "emu"]),
        "--backend",
    ),
    "emulate": Argument(_text("The ROCm runtime on an emulated GPU, like gfx90a."), "--emulate"),
    "device": Argument(_integer("The position of the GPU."), "--device"),
    "tol": Argument(_list("Element type and tolerance of a buffer, like out=f16:rel=1e-2."), "--tol", "each"),
    "launch_seconds": Argument({"type": "number", "exclusiveMinimum": 0, "description": "Seconds of a launch at most."}, "--timeout"),
}


@dataclass(frozen=True)
class Tool:
    """A tool."""

    name: str
    title: str
    description: str
    arguments: dict[str, Argument]
    required: tuple[str, ...]
    call: Callable[[Call], dict[str, Any]]
    #: It changes no file and runs nothing but captured kernels.
    only_reads: bool = False

    def schema(self, limits: Limits) -> Schema:
        """What it takes, as JSON Schema."""
        seconds = {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": limits.seconds,
            "description": "Seconds after which the command and all that it has started are ended.",
        }
        properties = {name: argument.schema for name, argument in self.arguments.items()}
        return {
            "type": "object",
            "properties": {**properties, "seconds": seconds},
            "required": list(self.required),
            "additionalProperties": False,
        }

    def described(self, limits: Limits) -> dict[str, Any]:
        """What clients are told of it."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.schema(limits),
            "outputSchema": {
                "type": "object",
                "properties": {
                    "status": {"type": ["integer", "null"], "description": "The exit status; null if the time was over."},
                    "word": {"type": "string", "description": "What the status means, in a word."},
                    "messages": {"type": "string", "description": "What omniprobe said on standard error."},
                    "cut": {"type": "array", "items": {"type": "object"}, "description": "What was left out, by path."},
                },
            },
            "annotations": {"title": self.title, "readOnlyHint": self.only_reads, "openWorldHint": False},
        }


@dataclass
class Call:
    """A call of a tool."""

    tool: Tool
    arguments: dict[str, Any]
    limits: Limits
    cancelled: threading.Event
    cut: list[dict[str, Any]] = field(default_factory=list)

    def path(self, name: str) -> Path:
        """An argument that is a path."""
        return self.limits.path(self.arguments[name], name)

    def folder(self) -> Path:
        """The folder that a command runs in."""
        folder = self.path("folder") if "folder" in self.arguments else self.limits.roots[0]
        if not folder.is_dir():
            raise ToolFailure(f"folder: expected a folder, found {folder}")
        return folder

    def options(self) -> list[str]:
        """The arguments as options of `omniprobe`."""
        words: list[str] = []
        for name, value in self.arguments.items():
            argument = self.tool.arguments.get(name)
            if argument is None or not argument.option:
                continue
            if argument.kind == "flag":
                words += [argument.option] if value else []
                continue
            values = value if isinstance(value, list) else [value]
            for one in values:
                if argument.kind in ("path", "paths"):
                    one = self.limits.path(one, name)
                elif argument.kind == "code":
                    one = self._code(one, name)
                # In one word: a value that begins with a dash is no option.
                words.append(f"{argument.option}={one}")
        return words

    def _code(self, text: str, what: str) -> str:
        if text in ("captured", "original"):
            return text
        name, sign, path = text.partition("=")
        return f"{name}={self.limits.path(path, what)}" if sign else str(self.limits.path(text, what))

    def run(self, words: Iterable[Union[str, Path]], stdout: Kept, stderr: Optional[Kept] = None, seconds: float = 0.0) -> Ran:
        """Runs `omniprobe`."""
        command = [str(_tool.omniprobe()), *map(str, words)]
        stderr = Kept(_MESSAGES // 2, _MESSAGES // 2) if stderr is None else stderr
        limit = seconds or self.arguments.get("seconds", self.limits.seconds)
        try:
            return run(
                command,
                folder=self.folder(),
                seconds=limit,
                stdout=stdout,
                stderr=stderr,
                cancelled=self.cancelled,
                variables=self.arguments.get("environment"),
            )
        except (OSError, ValueError) as error:
            raise ToolFailure(f"omniprobe: {error}") from error

    def objects(self, words: Iterable[Union[str, Path]]) -> tuple[Ran, list[Any]]:
        """Runs `omniprobe`, and reads its lines of JSON."""
        kept = Kept(_JSON, 0)
        ran = self.run(words, kept)
        found = []
        for line in kept.text().splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                # The end of what was kept, or of what a command that was ended could say.
                break
        if kept.is_cut:
            self.cut.append({"path": "results", "kept": kept.kept, "of": kept.total, "unit": "bytes"})
        return ran, found

    def stream(self, name: str, kept: Kept) -> str:
        """A stream of an application, as a text."""
        if kept.is_cut:
            self.cut.append({"path": name, "kept": kept.kept, "of": kept.total, "unit": "bytes"})
        return kept.text()


def _word(status: Optional[int]) -> str:
    """What a status of a subcommand means."""
    if status is None:
        return "time-limit"
    if status < 0:
        return f"signal {-status}"
    words = {number: word for number, word, _, _ in _native.statuses()}
    return words.get(status, f"status {status}")


def _said(ran: Ran, **more: Any) -> dict[str, Any]:
    messages = ran.stderr.text().strip()
    if ran.status is None:
        messages = f"ended after {ran.seconds:.1f} s: the time was over\n{messages}".strip()
    return {"status": ran.status, "word": _word(ran.status), "messages": messages, **more}


def _of_objects(asked: Call, words: Iterable[Union[str, Path]]) -> dict[str, Any]:
    ran, results = asked.objects(words)
    said = _said(ran, results=results)
    with_result = [one for one in results if not (isinstance(one, dict) and one.get("error"))]
    said["isError"] = ran.status is None or ran.status < 0 or (ran.status != 0 and not with_result)
    return said


def _application(asked: Call, words: list[Union[str, Path]]) -> tuple[Ran, dict[str, Any]]:
    """Runs an application under `omniprobe`."""
    half = asked.limits.size // 8
    ran = asked.run([*asked.options(), *words, "--", *asked.arguments["command"]], Kept(half, half), Kept(half, half))
    stdout, stderr = asked.stream("stdout", ran.stdout), asked.stream("messages", ran.stderr)
    said = _said(ran, stdout=stdout)
    over = f"ended after {ran.seconds:.1f} s: the time was over\n" if ran.status is None else ""
    # The status is the application's own, whose numbers have other meanings.
    said.update(messages=over + stderr, word="time-limit" if ran.status is None else "application")
    said["isError"] = ran.status is None
    return ran, said


def _run(asked: Call) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="logdur-") as folder:
        log = asked.path("log") if "log" in asked.arguments else Path(folder) / "log.jsonl"
        ran, said = _application(asked, ["--log-format=json", f"--log-location={log}"])
        summary, totals = asked.objects(["summary", log, "--json", "--last", f"--top={_TOP}"]) if log.is_file() else (None, [])
        said["log"] = str(log) if "log" in asked.arguments else None
        said["summary"] = totals[0] if totals else None
        if summary is not None and not totals:
            said["messages"] = (said["messages"].rstrip() + "\n" + summary.stderr.text()).strip()
        # What the command line does not say rightly is no application's status.
        said["isError"] = said["isError"] or (ran.status not in (0, None) and not totals)
        return said


def _capture(asked: Call) -> dict[str, Any]:
    if "%" in asked.arguments["file"]:
        raise ToolFailure(f"file: expected a name without %, found {asked.arguments['file']}")
    file = asked.path("file")
    was = file.stat().st_mtime_ns if file.exists() else None
    _, said = _application(asked, [f"--capture={file}", "--log-location=/dev/null"])
    is_new = file.is_file() and file.stat().st_mtime_ns != was
    info = asked.objects(["info", file, "--json"])[1] if is_new else []
    said["capture"] = info[0] if info else None
    said["isError"] = said["isError"] or not info
    return said


def _summary(asked: Call) -> dict[str, Any]:
    logs = [asked.limits.path(log, "logs") for log in asked.arguments["logs"]]
    top = [] if "top" in asked.arguments else [f"--top={_TOP}"]
    return _of_objects(asked, ["summary", *logs, "--json", *top, *asked.options()])


def _verify(asked: Call) -> dict[str, Any]:
    return _of_objects(asked, ["verify", asked.path("capture"), "--json", *asked.options()])


def _analyze(asked: Call) -> dict[str, Any]:
    said = _of_objects(asked, ["analyze", asked.path("capture"), "--json", *asked.options()])
    wanted = asked.arguments.get("details", [])
    for number, result in enumerate(said["results"]):
        for name in _DETAILS:
            if isinstance(result, dict) and name not in wanted and isinstance(result.get(name), list):
                whole = len(result.pop(name))
                asked.cut.append({"path": f"results[{number}].{name}", "kept": 0, "of": whole})
    return said


def _tune(asked: Call) -> dict[str, Any]:
    return _of_objects(asked, ["tune", asked.path("capture"), "--json", *asked.options()])


TOOLS = [
    Tool(
        "run",
        "Run an application",
        "Runs an application and logs each kernel that it dispatches. Returns its status and output, and the totals of kernels: `groups`"
        " with count, total, median in nanoseconds. Give `log` to keep the log for `summary`.",
        {
            "command": _COMMAND,
            "folder": _FOLDER,
            "environment": _ENVIRONMENT,
            "emulate": _EMULATE,
            "log": Argument(_text("The log to append to, a .jsonl file.")),
            "kernels": Argument(_text("Log only kernels whose name matches this regular expression."), "--log-filter"),
            "when": Argument(_text("Log only a part of the run, like dispatches:10-20, seconds:1-5 or range:NAME."), "--when"),
        },
        ("command",),
        _run,
    ),
    Tool(
        "summary",
        "Sum up logs",
        "Adds up the durations of logs by kernel, and compares them with another log (`against`). Status 6 with `fail_above`: a kernel is"
        " slower.",
        {
            "logs": Argument(_list("Logs: CSV, JSON, records, rocprofv3's kernel_trace.csv, rocpd databases.", least=1)),
            "by": Argument(
                _text("What rows are grouped by.", enum=["kernel", "shape", "queue", "gpu", "process", "rank", "site", "log"]), "--by"
            ),
            "top": Argument(_integer(f"So many groups (default {_TOP}).", 1), "--top"),
            "last": Argument(_flag("Of a log with several runs, the last one."), "--last", "flag"),
            "against": Argument(_text("The log to compare with."), "--against", "path"),
            "fail_above": Argument(
                {"type": "number", "minimum": 0, "description": "Status 6 if a kernel is slower by so many percent."}, "--fail-above"
            ),
        },
        ("logs",),
        _summary,
        True,
    ),
    Tool(
        "capture",
        "Capture dispatches",
        "Runs an application and writes dispatches with the memory before and after them into a file. Returns what is in the file; its"
        " `dispatches` have the numbers for `verify`, `analyze` and `tune`.",
        {
            "command": _COMMAND,
            "folder": _FOLDER,
            "environment": _ENVIRONMENT,
            "emulate": _EMULATE,
            "file": Argument(_text("The capture to write, a .ldcap file.")),
            "kernels": Argument(_text("Only kernels whose name matches this regular expression."), "--capture-kernels"),
            "dispatches": Argument(
                _text("Which dispatches of each kernel: 1,3-7 or every:N or random:P% (default the first)."), "--capture-dispatches"
            ),
            "quit": Argument(_integer("End the application after so many captures.", 1), "--capture-quit"),
            "force": Argument(_flag("Replace an existing capture."), "--force", "flag"),
        },
        ("command", "file"),
        _capture,
    ),
    Tool(
        "verify",
        "Verify dispatches",
        "Replays captured dispatches, also with another kernel, and compares every byte that they write. `results` has PASS or FAIL for"
        " each dispatch, and for each buffer the first element that differs.",
        {
            "capture": _CAPTURE,
            **_DISPATCHES,
            "hsaco": _CODE,
            **_GEOMETRY,
            **_DEVICE,
            "strict": Argument(_flag("Status 9 for a PASS that proves less than it could."), "--strict", "flag"),
        },
        ("capture",),
        _verify,
        True,
    ),
    Tool(
        "analyze",
        "Analyse dispatches",
        "Runs captured dispatches on the emulated GPU, and counts what their instructions do: kinds, cache lines, LDS bank conflicts,"
        " active lanes, occupancy. Checks find races, unwritten values and accesses outside of buffers; status 6 if one does.",
        {
            "capture": _CAPTURE,
            **_DISPATCHES,
            "hsaco": _CODE,
            **_GEOMETRY,
            "what": Argument(_list("Analyses: mix, blocks, lines, lds, heat, occupancy (default all)."), "--what", "each"),
            "check": Argument(_list("Checks: memory, init, race, wait, hazard, barrier, or all."), "--check", "each"),
            "workgroups": Argument(_text("Observe only so many workgroups, or such a part: 16 or 5%."), "--workgroups"),
            "details": Argument(
                _list("Long members of results to keep; others are left out.", {"type": "string", "enum": list(_DETAILS)})
            ),
        },
        ("capture",),
        _analyze,
        True,
    ),
    Tool(
        "tune",
        "Tune a dispatch",
        "Runs one captured dispatch with other workgroups, grids and code, verifies each configuration before it times it, and returns the"
        " best. `compile` is a command of the shell.",
        {
            "capture": _CAPTURE,
            **_DISPATCHES,
            "output": Argument(_text("A new folder for the search."), "--output", "path"),
            "param": Argument(_list("Parameters and their values: NAME=V1,V2 or NAME=lo..hi:*2."), "--param", "each"),
            "workgroup": Argument(_list("Workgroups: X[,Y[,Z]], expressions of {param}."), "--workgroup", "each"),
            "grid": Argument(_list("Grids: X[,Y[,Z]], expressions of {param}."), "--grid", "each"),
            "keep": Argument(_text("What stays if only the workgroup changes.", enum=["items", "groups"]), "--keep"),
            "hsaco_dir": Argument(_text("Try each code object of this folder."), "--hsaco-dir", "path"),
            "compile": Argument(_text("Compiles code for a configuration: {param} is a value, {out} the file to write."), "--compile"),
            "random": Argument(_integer("Try so many configurations.", 1), "--random"),
            "seed": Argument(_integer("The same seed tries the same ones."), "--seed"),
            "repetitions": Argument(_integer("Runs of each configuration that is not dropped.", 1), "--repetitions"),
            "resume": Argument(_flag("Continue a search that was ended."), "--resume", "flag"),
            **_DEVICE,
        },
        ("capture", "output"),
        _tune,
    ),
]


def arguments_of(tool: Tool, arguments: Any, limits: Limits) -> dict[str, Any]:
    """The arguments of a call.

    :raises ValueError: when they are not what the schema says.
    """
    _check(arguments, tool.schema(limits), "arguments")
    checked: dict[str, Any] = arguments
    return checked


def call(tool: Tool, arguments: dict[str, Any], limits: Limits, cancelled: threading.Event) -> dict[str, Any]:
    """The result of a call.

    :raises ToolFailure: when there is none.
    :raises logdur._bounded.Cancelled: when nobody wants it any more.
    """
    asked = Call(tool, arguments, limits, cancelled)
    said = tool.call(asked)
    failed = bool(said.pop("isError"))
    said["cut"] = asked.cut
    # The notes on what is cut need some room, too.
    said["cut"] = said["cut"] + fit(said, limits.size - _NOTES)
    text = json.dumps(said, ensure_ascii=False)
    return {"content": [{"type": "text", "text": text}], "structuredContent": said, "isError": failed}


#: The words of JSON Schema for types.
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def _check(value: Any, schema: Schema, what: str) -> None:
    """Compares a value with the part of JSON Schema that the tools use."""
    kind = schema["type"]
    is_of_kind = isinstance(value, _TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))
    if not is_of_kind or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{what}: expected {kind}, found {json.dumps(value)[:80]}")
    if "enum" in schema and value not in schema["enum"]:
        raise ValueError(f"{what}: expected one of {', '.join(schema['enum'])}, found {value!r}")
    if isinstance(value, str):
        try:
            usable = b"\0" not in os.fsencode(value)
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise ValueError(f"{what}: expected a text that a command line can have, found {value!r}")
    if isinstance(value, (int, float)):
        if value < schema.get("minimum", value) or value <= schema.get("exclusiveMinimum", -math.inf):
            raise ValueError(f"{what}: expected at least {schema.get('minimum', 'more than 0')}, found {value}")
        if value > schema.get("maximum", value):
            raise ValueError(f"{what}: expected at most {schema['maximum']}, found {value}")
    if isinstance(value, list):
        if len(value) < schema.get("minItems", 0):
            raise ValueError(f"{what}: expected at least {schema['minItems']}, found {len(value)}")
        for number, item in enumerate(value):
            _check(item, schema["items"], f"{what}[{number}]")
    if isinstance(value, dict):
        properties, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        for name in schema.get("required", []):
            if name not in value:
                raise ValueError(f"{what}: expected {name}")
        for name, item in value.items():
            of = properties.get(name, others)
            if of is False:
                raise ValueError(f"{what}: expected {', '.join(properties)}, found {name}")
            if isinstance(of, dict):
                _check(item, of, f"{what}.{name}")
