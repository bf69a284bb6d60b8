"""Captures: arguments and memory as NumPy has them, replays as objects, and errors with their reasons."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
import warnings

import numpy as np
import pytest

import logdur
from conftest import PLACE, probed


def smooth(values):
    """What the kernel computes, in its order of additions."""
    total = np.zeros(len(values), np.float32)
    for at in range(8):
        total += np.roll(values, -at)
    return total / np.float32(8)


def test_arguments_have_names_and_values(capture):
    (dispatch,) = capture.dispatches
    assert (dispatch.kernel, dispatch.grid, dispatch.workgroup) == ("smooth", (16384, 1, 1), (256, 1, 1))
    given, made, count = dispatch.arguments.values()
    assert (count.value, count.view("i4"), count.size) == (16384, 16384, 4)
    addresses = {buffer.name: buffer.address for buffer in dispatch.buffers}
    assert (given.value, made.value) == (addresses["arg0"], addresses["arg1"])
    assert list(dispatch.before) == ["arg0", "arg1"] and f"{made.value:#x}" not in dispatch.before
    assert (dispatch.duration_ns or 0) > 0 and dispatch.lacks == [] and capture.is_finished


def test_arguments_are_there_without_memory(folder, tmp_path):
    options = ["--capture", tmp_path / "bare.ldcap", "--capture-kernels", "smooth", "--capture-scope", "kernarg"]
    probed(folder, *options, "-l", "/dev/null", "--", "./pipeline")
    (dispatch,) = logdur.Capture(tmp_path / "bare.ldcap", **PLACE).dispatches
    assert dispatch.arguments["arg2"].value == 16384
    assert (list(dispatch.before), list(dispatch.after)) == ([], [])
    with pytest.raises(logdur.ToolError, match="no memory before the kernel") as error:
        dispatch.verify()
    assert error.value.name == "incomplete"


def test_the_memory_after_a_kernel_is_what_numpy_computes_of_that_before(capture):
    (dispatch,) = capture.dispatches
    before, after = dispatch.before.view("arg0", "f4"), dispatch.after.view("arg1", np.float32)
    np.testing.assert_array_equal(after, smooth(before))
    np.testing.assert_array_equal(dispatch.after["arg1"].view("f4"), after)
    assert not np.array_equal(dispatch.before["arg1"], dispatch.after["arg1"])
    np.testing.assert_array_equal(dispatch.after.view("arg1", "f4", (4, 4)), after[:16].reshape(4, 4))
    address = dispatch.arguments["arg1"].value
    assert dispatch.after.read(address + 64, 8) == after[16:18].tobytes()


def test_memory_that_is_not_compressed_is_mapped_and_the_same(capture, folder):
    whole = logdur.Capture(folder / "whole.ldcap")
    (dispatch,) = [one for one in whole.dispatches if one.kernel == "smooth"]
    mapped = dispatch.before.view("arg0", "f4")
    assert dispatch.before.is_mapped("arg0")
    assert np.shares_memory(mapped, np.frombuffer(whole._map(), "u1")) and not mapped.flags.writeable
    np.testing.assert_array_equal(dispatch.after.view("arg1", "f4"), smooth(mapped))
    other = capture.dispatches[0].before.view("arg0", "f4")
    assert not capture.dispatches[0].before.is_mapped("arg0")
    assert len(other) == len(mapped)


def test_types_are_chosen_for_a_capture_and_bf16_has_its_own(folder):
    capture = logdur.Capture(folder / "app.ldcap", types={"arg1": "f32", "arg0": "bf16"})
    dispatch = capture.dispatches[0]
    assert (dispatch.after["arg1"].dtype, dispatch.before["arg0"].dtype.itemsize) == (np.float32, 2)
    wrong = logdur.Capture(folder / "app.ldcap", types={"none": "f32"})
    with pytest.raises(ValueError, match="expected one of arg0, arg1.*found .*none"):
        _ = wrong.dispatches[0].buffers


def test_code_objects_are_those_that_the_tool_extracts(capture, folder, tmp_path):
    subprocess.run([logdur.omniprobe(), "extract", capture.path, "--code", "-o", tmp_path], check=True)
    expected = {path.stem: path.read_bytes() for path in tmp_path.iterdir()}
    assert {code.id: code.read() for code in capture.code_objects} == expected
    (own,) = [code for code in capture.code_objects if "smooth" in code.kernels]
    assert own.id == capture.dispatches[0].code_object and own.size == len(own.read())


def test_replays_are_verified_and_a_wrong_kernel_is_a_result(capture, faster, wrong):
    assert capture.verify().passed and capture.replay(repetitions=2)[0].passed
    (same,) = capture.verify(hsaco=faster)
    assert same.passed and same.buffer("arg1").verdict == "MATCH" and same.raw["replays"] == "other"
    differs = capture.dispatches[0].verify(hsaco={"smooth": wrong.read_bytes()}, tol={"arg1": "f32:rel=1e-3"})
    buffer = differs.buffer("arg1")
    assert (differs.passed, differs.status, buffer.mismatches, buffer.first.index) == (False, 6, 1, 77)
    assert float(buffer.first.found) == pytest.approx(float(buffer.first.expected) + 1)
    near = capture.verify(hsaco=wrong, tol=["arg1=f32:abs=1.5"])
    assert near.passed and near[0].buffer("arg1").max_abs == pytest.approx(1)
    assert "<table>" in near._repr_html_() and "arg1[77]" in differs._repr_html_()


def test_kernels_are_compared_and_only_those_that_compute_the_same_are_measured(capture, faster, wrong):
    (measured,) = capture.bench(compare=("captured", faster), repetitions=5)
    first, second = measured.sides
    assert measured.compared.ratio == pytest.approx(np.median(second.gpu_ns) / np.median(first.gpu_ns))
    dispatch = capture.dispatches[0]
    assert dispatch.measure(hsaco=faster, repetitions=5) < dispatch.measure(repetitions=5)
    assert dispatch.bench(hsaco="captured", workgroup=64, repetitions=2).passed
    with pytest.raises(logdur.ToolError, match=r"dispatch \d+: FAIL: arg1\[77\]") as error:
        dispatch.measure(hsaco=wrong, repetitions=2)
    assert (error.value.status, error.value.name) == (6, "mismatch") and error.value.results


@pytest.mark.skipif(not PLACE, reason="what a GPU refuses is its driver's matter")
def test_dynamic_lds_is_changed_and_too_much_is_refused(capture):
    (dispatch,) = capture.dispatches
    assert dispatch.verify(lds=4096).passed
    with pytest.raises(logdur.ToolError, match="LDS|group segment"):
        dispatch.verify(lds=1 << 20)


def test_an_analysis_is_an_object(capture):
    (found,) = capture.analyze(check="all")
    assert found.passed and found.instructions == []
    (counted,) = capture.analyze(what=["mix", "lines"])
    frame = counted.frame(engine="pandas")
    assert frame.executions.sum() == counted.totals["instructions"] and frame["source"].isna().all()
    with pytest.raises(ValueError, match="expected one of instructions"):
        counted.frame("nothing")


def test_what_is_no_capture_is_named_with_the_reason(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="none.ldcap"):
        logdur.Capture(tmp_path / "none.ldcap")
    whole = (folder / "app.ldcap").read_bytes()
    cut = tmp_path / "cut.ldcap"
    cut.write_bytes(whole[:40])
    with pytest.raises(logdur.CaptureError, match=r"cut\.ldcap: .*40 bytes") as error:
        logdur.Capture(cut)
    assert (error.value.status, error.value.name) == (2, "corrupt") and "fsck" in error.value.advice
    with pytest.raises(logdur.CaptureError, match=r"log\.csv: .*expected"):
        logdur.Capture(folder / "log.csv")
    cut.write_bytes(whole[: len(whole) // 2])
    half = logdur.Capture(cut)
    assert not half.is_finished and half.dispatches == []
    assert [line.startswith("not finished: ") for line in half.problems] == [True]
    with pytest.raises(logdur.ToolError, match=r"cut\.ldcap") as error:
        half.verify()
    assert error.value.name == "incomplete"


def test_damage_under_a_mapped_buffer_is_found(folder, tmp_path):
    whole = bytearray((folder / "whole.ldcap").read_bytes())
    values = logdur.Capture(folder / "whole.ldcap").dispatches[0].before.view("arg0", "u1")
    at = whole.find(values[4096:4160].tobytes())
    whole[at] ^= 1
    path = tmp_path / "damaged.ldcap"
    path.write_bytes(whole)
    damaged = logdur.Capture(path)
    dispatch = damaged.dispatches[0]
    with pytest.raises(logdur.CaptureError, match=r"damaged\.ldcap: .*checksum"):
        _ = dispatch.before["arg0"]
    assert any("checksum" in line for line in damaged.problems) and damaged.is_finished
    assert logdur.Capture(folder / "whole.ldcap").problems == []


def test_a_backend_that_there_is_not_is_an_error_at_once(folder):
    with pytest.raises(ValueError, match="backend: expected one of rocm, emu, found 'emulated'"):
        logdur.Capture(folder / "app.ldcap", backend="emulated")
    for wrong in ("gfx999", "", "gfx90a,"):
        with pytest.raises(ValueError, match="emulate: expected one of .*gfx942, gfx950, found "):
            logdur.Capture(folder / "app.ldcap", emulate=wrong)
    logdur.Capture(folder / "app.ldcap", emulate="gfx90a")


def test_notebooks_show_tables_of_what_is_in_a_capture(folder):
    capture = logdur.Capture(folder / "whole.ldcap")
    shown = capture._repr_html_()
    assert shown == capture.dispatches._repr_html_() and shown.count("<tr>") == 3
    assert "<td>16384x1x1</td><td>256x1x1</td>" in capture.dispatches[0]._repr_html_()
    assert "<td>arg0</td>" in capture.dispatches[0].before._repr_html_()
    assert capture.code_objects[0].id in capture.code_objects._repr_html_()


def test_a_tool_that_cannot_do_it_raises_its_message_and_status(capture, tmp_path):
    with pytest.raises(logdur.ToolError, match=r"new\.hsaco") as error:
        capture.verify(hsaco=tmp_path / "new.hsaco")
    assert error.value.name == "usage"
    with pytest.raises(logdur.ToolError, match="--tol nothing|nothing") as error:
        capture.verify(tol="nothing=f32")
    assert error.value.name == "usage"
    with pytest.raises(KeyError, match="expected a dispatch of"):
        capture.dispatch(123456)
    with pytest.raises(KeyError, match="expected memory after dispatch .*arg0, arg1"):
        _ = capture.dispatches[0].after["arg7"]
    with pytest.raises(ValueError, match="expected at most 16384 elements"):
        capture.dispatches[0].after.view("arg1", "f4", (1000, 1000))


def test_a_capture_travels_to_another_process_by_its_path(capture):
    again = pickle.loads(pickle.dumps(capture))
    assert (again.path, again.place) == (capture.path, capture.place)
    assert again.dispatches[0].id == capture.dispatches[0].id


@pytest.mark.skipif(not PLACE, reason="the emulated GPU is slow enough to be interrupted")
def test_an_interruption_ends_the_tool_and_is_raised(folder):
    program = textwrap.dedent(
        f"""
        import logdur
        print("ready", flush=True)
        try:
            logdur.Capture({str(folder / "app.ldcap")!r}, backend="emu").verify(repetitions=100000)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
        """
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert child.stdout.readline() == "ready\n"
    until = time.monotonic() + 60
    while len(family(child.pid)) < 3 and time.monotonic() < until:
        time.sleep(0.01)
    tools = family(child.pid)[1:]
    assert tools, "the tool did not start"
    # As a notebook's kernel gets it: the tool does not.
    os.kill(child.pid, signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n" and child.wait(60) == 0
    assert [pid for pid in tools if os.path.exists(f"/proc/{pid}/exe")] == []


def family(pid):
    """A process, and those that it has started."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [pid, *(each for child in file.read().split() for each in family(int(child)))]
    except FileNotFoundError:
        return []


def test_progress_is_shown_where_it_is_asked_for(folder, capsys):
    whole = logdur.Capture(folder / "whole.ldcap", **PLACE)
    assert len(whole.verify(progress=False)) == 2 and capsys.readouterr().err == ""
    logdur._progress._DELAY, delay = 0, logdur._progress._DELAY
    try:
        assert whole.verify(progress=True).passed
    finally:
        logdur._progress._DELAY = delay
    assert "2/2" in capsys.readouterr().err


def test_a_replay_leaves_no_file_open(capture):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        capture.verify()
        gc.collect()
    assert [str(warning.message) for warning in seen if warning.category is ResourceWarning] == []
