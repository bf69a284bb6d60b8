"""The server for agents, asked by the client of PyPI's `mcp`, and by lines that no client would send."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import jsonschema
import pytest
from mcp import Client, MCPError, StdioServerParameters

import logdur
from conftest import ARCH, EMULATE, ON_HARDWARE, PLACE
from logdur._bounded import fit, size

SCRIPT = Path(sys.executable).parent / "logdur"
APPLICATION = {} if ON_HARDWARE else {"emulate": ARCH}
INVALID_PARAMS = -32602


@asynccontextmanager
async def connected(folder, *options, mode="legacy"):
    server = StdioServerParameters(command=str(SCRIPT), args=["mcp", "--root", str(folder), *options], env=dict(os.environ))
    async with Client(server, mode=mode, read_timeout_seconds=200) as client:
        yield client


def called(root, name, /, *options, **arguments):
    """The result of one call."""

    async def one():
        async with connected(root, *options) as client:
            return await client.call_tool(name, arguments)

    return asyncio.run(one())


def content(result):
    """The structured content, which the text has, too."""
    if "error" in result.structured_content:
        assert result.is_error and result.content[0].text == result.structured_content["error"]
        return result.structured_content
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


def test_a_client_finds_six_tools_with_schemas_that_say_what_they_take(folder):
    async def asked(mode):
        async with connected(folder, mode=mode) as client:
            assert client.protocol_version == "2025-06-18"
            assert client.server_info.name == "logdur" and "run" in client.instructions
            return (await client.list_tools()).tools

    # The newest way to connect, and the one of this version of the protocol.
    tools, again = asyncio.run(asked("legacy")), asyncio.run(asked("auto"))
    assert [tool.name for tool in tools] == [tool.name for tool in again]
    assert [tool.name for tool in tools] == ["run", "summary", "capture", "verify", "analyze", "tune"]
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        jsonschema.Draft202012Validator.check_schema(tool.output_schema)
        assert tool.description and tool.input_schema["additionalProperties"] is False
        assert tool.input_schema["properties"]["seconds"]["maximum"] == 600
    assert [tool.name for tool in tools if tool.annotations.read_only_hint] == ["summary", "verify", "analyze"]


def test_an_application_is_run_summed_up_captured_verified_analysed_and_tuned(folder, faster, wrong, tmp_path):
    async def work():
        async with connected(folder, "--root", str(tmp_path)) as client:
            log = str(tmp_path / "log.jsonl")
            ran = content(await client.call_tool("run", {"command": ["./pipeline"], "log": log, **APPLICATION}))
            assert ran["status"] == 0 and ran["cut"] == [] and ran["log"] == log
            calls = {group["name"].split("(")[0]: group["calls"] for group in ran["summary"]["groups"]}
            direct = logdur.summary(log, engine="pandas").groups
            assert calls == {row.name.split("(")[0]: row.calls for row in direct.itertuples()}

            summed = content(await client.call_tool("summary", {"logs": [log], "against": log}))
            assert (summed["status"], summed["word"]) == (0, "success")
            assert {kernel["counts"]["log"] for kernel in summed["results"][0]["kernels"]} == set(calls.values())

            file = str(tmp_path / "new.ldcap")
            asked = {"command": ["./pipeline"], "file": file, "kernels": "smooth", **APPLICATION}
            captured = content(await client.call_tool("capture", asked))
            dispatch = captured["capture"]["dispatches"][0]
            again = await client.call_tool("capture", asked)
            assert again.is_error and "exists" in content(again)["messages"]

            chosen = {"capture": file, "dispatch": [dispatch["dispatch"]]}
            verified = content(await client.call_tool("verify", {**chosen, **PLACE, "hsaco": [f"all={faster}"]}))
            assert (verified["status"], verified["results"][0]["result"]) == (0, "PASS")
            differs = await client.call_tool("verify", {**chosen, **PLACE, "hsaco": [str(wrong)]})
            first = content(differs)["results"][0]["buffers"]
            # That results differ is an answer, no error.
            assert content(differs)["word"] == "mismatch" and not differs.is_error
            assert any(buffer["first"] and buffer["first"]["index"] == 77 for buffer in first)

            analysed = content(await client.call_tool("analyze", {**chosen, "check": ["all"], "what": ["mix", "lds"]}))
            one = logdur.Capture(file, **PLACE).dispatches[0].analyze(what="mix")
            assert analysed["results"][0]["totals"]["instructions"] == one.totals["instructions"]
            # What is as long as the code is left out, and that is said.
            left = {cut["path"]: cut["of"] for cut in analysed["cut"]}
            assert "instructions" not in analysed["results"][0] and left["results[0].instructions"] > 100
            detailed = content(await client.call_tool("analyze", {**chosen, "details": ["blocks"]}))
            assert detailed["results"][0]["blocks"]

            searched = {**chosen, **PLACE, "output": str(tmp_path / "out"), "workgroup": ["64", "128"], "repetitions": 3}
            tuned = content(await client.call_tool("tune", searched))
            assert tuned["status"] == 0 and (tmp_path / "out/trials.csv").is_file()
            assert tuned["results"][0]["best"] is not None

    asyncio.run(work())


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("run", {}, "expected command"),
        ("run", {"command": "ls"}, "arguments.command: expected array"),
        ("run", {"command": []}, "expected at least 1, found 0"),
        ("run", {"command": ["a\0b"]}, "that a command line can have"),
        ("run", {"command": ["ls"], "shell": True}, "found shell"),
        ("run", {"command": ["ls"], "seconds": 0}, "expected at least more than 0, found 0"),
        ("run", {"command": ["ls"], "seconds": 601}, "expected at most 600"),
        ("run", {"command": ["ls"], "environment": {"A": 1}}, "arguments.environment.A: expected string"),
        ("verify", {"capture": "a", "dispatch": [True]}, "arguments.dispatch[0]: expected integer"),
        ("verify", {"capture": "a", "backend": "cuda"}, "expected one of rocm, emu"),
        ("summary", {"logs": ["a"], "fail_above": -1}, "expected at least 0, found -1"),
        ("delete", {}, "expected a tool: run, summary"),
    ],
)
def test_arguments_that_the_schema_does_not_allow_are_refused_by_name(folder, name, arguments, said):
    async def asked():
        async with connected(folder) as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool(name, arguments)
            return refused.value.error

    error = asyncio.run(asked())
    assert error.code == INVALID_PARAMS and said in error.message


def test_files_outside_of_the_folders_are_refused_also_through_links(folder, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (outside / "log.csv").write_text("")
    for path in ["/etc/passwd", "../outside/log.csv", "link/log.csv", str(outside / "log.csv")]:
        result = called(inside, "summary", logs=[path])
        assert result.is_error and "expected a path below" in content(result)["error"], path
    for arguments in [{"capture": "x", "hsaco": ["all=/etc/passwd"]}, {"capture": "/etc/passwd"}]:
        assert "expected a path below" in content(called(inside, "verify", **arguments))["error"]
    result = called(inside, "run", command=["true"], folder="..")
    assert result.is_error and "folder: expected a path below" in content(result)["error"]
    # What begins with a dash is a value.
    result = called(inside, "verify", capture="none", kernel="--version")
    assert result.is_error and content(result)["word"] == "corrupt" and "none: No such file" in content(result)["messages"]


def alive(marker):
    """The processes with a word on their command lines."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if marker.encode() in words:
            found.append(int(name))
    return found


#: Starts processes in its group, in a group of theirs, and in a session of theirs, which ignore SIGTERM, and waits.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
marker = sys.argv[1]
wait = [sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", marker]
subprocess.Popen(wait)
subprocess.Popen(wait, preexec_fn=os.setpgrp)
subprocess.Popen(wait, start_new_session=True)
print("started", flush=True)
if len(sys.argv) < 3:
    time.sleep(600)
time.sleep(1)
"""


@pytest.mark.parametrize("more", [[], ["ends"]])
def test_nothing_is_left_of_a_command_that_runs_into_its_limit_or_ends(tmp_path, more):
    marker = f"logdur-test-{os.getpid()}-{len(more)}"
    begin = time.monotonic()
    command = [sys.executable, "-c", STUBBORN, marker, *more]
    result = called(tmp_path, "run", command=command, seconds=3 if not more else 100, **APPLICATION)
    said = content(result)
    assert said["stdout"] == "started\n"
    if more:
        assert said["status"] == 0 and not result.is_error
    else:
        assert result.is_error and said["status"] is None and said["word"] == "time-limit"
        assert "the time was over" in said["messages"]
    assert time.monotonic() - begin < 60
    assert alive(marker) == []


def test_a_call_that_is_cancelled_ends_and_the_next_is_answered(tmp_path):
    marker = f"logdur-test-{os.getpid()}-cancelled"

    async def work():
        async with connected(tmp_path) as client:
            waits = asyncio.create_task(client.call_tool("run", {"command": ["sh", "-c", "sleep 600; :", marker]}))
            while not alive(marker):
                await asyncio.sleep(0.1)
            # Other requests are answered meanwhile.
            assert (await client.list_tools()).tools
            waits.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waits
            answer = await client.call_tool("summary", {"logs": ["absent"]})
            assert answer.is_error and alive(marker) == []

    asyncio.run(work())


def test_large_output_is_cut_in_the_middle_and_says_so(tmp_path):
    program = "import sys; sys.stdout.write('begin' + 'x' * 3_000_000 + 'end'); sys.stderr.write('y' * 3_000_000)"
    result = called(tmp_path, "run", "--bytes", "8192", command=[sys.executable, "-c", program], **APPLICATION)
    said = content(result)
    assert said["status"] == 0 and len(json.dumps(said, ensure_ascii=False)) <= 8192
    assert said["stdout"].startswith("begin") and said["stdout"].endswith("end") and "[...]" in said["stdout"]
    cut = {one["path"]: one for one in said["cut"]}
    assert cut["stdout"]["of"] == 3_000_008 and cut["stdout"]["kept"] < 8192 and cut["messages"]["of"] >= 3_000_000


def test_a_large_result_has_its_longest_lists_cut(folder):
    size = 6000
    result = called(folder, "analyze", "--bytes", str(size), capture="app.ldcap", details=["instructions", "lines", "blocks"])
    said = content(result)
    assert len(json.dumps(said, ensure_ascii=False).encode()) <= size
    cut = {one["path"]: one for one in said["cut"]}
    one = cut["results[0].instructions"]
    assert 1 <= one["kept"] == len(said["results"][0]["instructions"]) < one["of"]
    assert said["results"][0]["totals"]["instructions"] > 0


def nested(random, depth):
    """Any value of JSON."""
    if depth == 0 or random.random() < 0.3:
        return random.choice([None, True, 1.5, 10**random.randrange(15), "é" * random.randrange(400), "x" * random.randrange(3000)])
    inner = [nested(random, depth - 1) for _ in range(random.choice([0, 1, 2, 12]))]
    return inner if random.random() < 0.5 else {f"member{n}": value for n, value in enumerate(inner)}


def test_every_value_is_cut_until_it_fits_and_each_cut_is_listed():
    random, cut_values = Random(1), 0
    for _ in range(100):
        value = {f"top{n}": nested(random, 3) for n in range(3)}
        whole, limit = json.dumps(value), random.choice([200, 1000, 8000])
        cuts = fit(value, limit)
        assert size(value) <= limit, (whole, value)
        assert bool(cuts) == (json.dumps(value) != whole)
        assert all(cut["kept"] < cut["of"] for cut in cuts)
        cut_values += bool(cuts)
    assert 20 < cut_values < 95


def test_output_that_is_no_text_is_written_in_escapes(tmp_path):
    program = "import sys; sys.stdout.buffer.write(b'a\\xff\\x00\\xc3\\xa9\\n'); sys.stderr.buffer.write(b'\\xfe\\n')"
    said = content(called(tmp_path, "run", command=[sys.executable, "-c", program], **APPLICATION))
    assert said["stdout"] == "a\\xff\0é\n" and "\\xfe" in said["messages"]


def test_the_status_of_an_application_is_its_own_and_what_cannot_start_is_an_error(tmp_path):
    result = called(tmp_path, "run", command=["sh", "-c", "exit 7"], **APPLICATION)
    assert content(result)["status"] == 7 and content(result)["word"] == "application"
    result = called(tmp_path, "run", command=["./absent"], **APPLICATION)
    assert result.is_error and "absent" in content(result)["messages"]
    result = called(tmp_path, "run", command=["true"], environment={"A=B": "1"})
    assert result.is_error and "environment" in content(result)["error"]


def exchanged(folder, *lines, options=()):
    """What the server answers to lines, until its input ends."""
    command = [SCRIPT, "mcp", "--root", folder, *options]
    done = subprocess.run(command, input=b"".join(lines), capture_output=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def message(number, method, **params):
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode() + b"\n"


def test_lines_that_are_no_messages_get_the_errors_of_json_rpc(tmp_path):
    lines = [
        b"\n",
        b"{\n",
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'"' + b"x" * (5 << 20) + b'"\n',
        b"[]\n",
        b'{"id": 1, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": null, "method": "ping"}\n',
        b'{"jsonrpc": "2.0", "id": 2, "method": 3}\n',
        b'{"jsonrpc": "2.0", "id": 3, "method": "ping", "params": [1]}\n',
        b'{"jsonrpc": "2.0", "method": "notifications/unknown"}\n',
        b'{"jsonrpc": "2.0", "id": 9, "result": {}}\n',
        message(4, "tools/list"),
        message(5, "resources/list"),
        message("six", "ping"),
        message(7, "initialize", protocolVersion="1999-01-01"),
        message(8, "tools/call", name=["run"]),
        message(8, "tools/call", name="run", arguments=[]),
    ]
    answers = exchanged(tmp_path, *lines)
    errors = [(answer["id"], answer["error"]["code"]) for answer in answers if "error" in answer]
    assert errors == [
        *[(None, -32700)] * 4,
        (None, -32600),
        (1, -32600),
        (None, -32600),
        (None, -32600),
        (2, -32600),
        (3, INVALID_PARAMS),
        (4, -32600),
        (5, -32601),
        (8, INVALID_PARAMS),
        (8, INVALID_PARAMS),
    ]
    results = {answer["id"]: answer["result"] for answer in answers if "result" in answer}
    assert results["six"] == {} and results[7]["protocolVersion"] == "2025-06-18" and set(results) == {"six", 7}


def test_the_server_ends_with_its_input_or_by_a_signal_and_leaves_nothing(tmp_path):
    for ends in ("input", "signal"):
        marker = f"logdur-test-{os.getpid()}-{ends}"
        command = [SCRIPT, "mcp", "--root", tmp_path]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            server.stdin.write(message(1, "initialize"))
            server.stdin.write(message(2, "tools/call", name="run", arguments={"command": ["sh", "-c", "sleep 600; :", marker]}))
            server.stdin.flush()
            while not alive(marker):
                time.sleep(0.05)
            if ends == "input":
                server.stdin.close()
            else:
                server.send_signal(signal.SIGTERM)
            assert server.wait(20) == (0 if ends == "input" else 128 + signal.SIGTERM)
        assert alive(marker) == []


def test_only_the_tools_that_are_asked_for_are_offered(tmp_path):
    lines = [message(1, "initialize"), message(2, "tools/list"), message(3, "tools/call", name="run", arguments={"command": ["true"]})]
    answers = exchanged(tmp_path, *lines, options=["--tool", "summary", "--tool", "verify"])
    assert [tool["name"] for tool in answers[1]["result"]["tools"]] == ["summary", "verify"]
    assert answers[2]["error"]["code"] == INVALID_PARAMS
    wrong = subprocess.run([SCRIPT, "mcp", "--root", tmp_path / "absent"], capture_output=True, text=True)
    assert wrong.returncode == 2 and "expected a folder" in wrong.stderr


def test_the_page_for_agents_names_options_that_there_are():
    page = subprocess.run([SCRIPT, "skill"], capture_output=True, text=True, check=True).stdout
    _, head, body = page.split("---\n", 2)
    fields = dict(line.split(": ", 1) for line in head.splitlines())
    assert fields["name"] == "logdur" and 0 < len(fields["description"]) <= 1024
    helps = {}
    for word in ["", "bench"]:
        command = [logdur.omniprobe(), *([word] if word else []), "--help"]
        helps[word] = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in body.split("`")[1::2]:
        words = line.split()
        if words[0] == "omniprobe":
            of = helps["bench" if "bench" in words else ""]
            assert all(word in of for word in words if word.startswith("--") and word != "--"), line
    # Everything else is omniprobe.
    direct = subprocess.run([SCRIPT, "doctor", *EMULATE], capture_output=True, text=True)
    assert direct.returncode == 0 and "liblogdur.so is loaded by the runtime" in direct.stdout
