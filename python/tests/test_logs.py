"""Logs as data frames, compared with Python's own readers of CSV and JSON."""

import csv
import gzip
import io
import json
import shutil

import pandas
import polars
import pyarrow
import pytest

import logdur

ENGINES = ["pandas", "polars", "pyarrow"]


def cells(frame, column):
    """A column as Python's values."""
    if isinstance(frame, pyarrow.Table):
        return frame[column].to_pylist()
    if isinstance(frame, polars.DataFrame):
        return frame[column].to_list()
    return [None if pandas.isna(cell) else cell for cell in frame[column].tolist()]


def of_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def of_json(path):
    with open(path) as file:
        return [row for row in map(json.loads, file) if "kernel" in row]


@pytest.mark.parametrize("engine", ENGINES)
def test_each_library_has_the_rows_that_python_reads_in_the_csv(folder, engine):
    frame = logdur.read_log(folder / "log.csv", engine=engine)
    expected = of_csv(folder / "log.csv")
    assert len(expected) == 36
    assert cells(frame, "kernel") == [row["kernel"] for row in expected]
    for column in ["startNs", "endNs", "durationNs", "id", "queue", "pid", "rank", "vgprs"]:
        assert cells(frame, column) == [int(row[column]) for row in expected], column
    assert cells(frame, "kernelObject") == [int(row["kernelObject"], 16) for row in expected]
    assert cells(frame, "gridX") == [int(row["grid"].split("x")[0]) for row in expected]
    assert cells(frame, "replaced") == [None] * 36 and cells(frame, "bytes") == [None] * 36


@pytest.mark.parametrize("engine", ENGINES)
def test_logs_of_two_ranks_and_both_formats_are_one_frame(folder, engine):
    paths = [folder / "log.csv", str(folder / "log.jsonl")]
    frame = logdur.read_log(paths, engine=engine)
    rows = of_json(folder / "log.jsonl")
    assert cells(frame, "rank") == [0] * 36 + [1] * len(rows)
    assert cells(frame, "startNs")[36:] == [row["startNs"] for row in rows]
    assert cells(frame, "workgroupX")[36:] == [row["workgroup"][0] for row in rows]
    assert cells(frame, "log") == [str(paths[0])] * 36 + [str(paths[1])] * len(rows)


def test_a_name_with_marks_is_the_logs_of_all_processes(folder, tmp_path):
    for rank in ["0", "1", "10"]:
        shutil.copy(folder / "log.csv", tmp_path / f"log.{rank}.csv")
    shutil.copy(folder / "log.csv", tmp_path / "log.old.csv")
    frame = logdur.read_log(tmp_path / "log.%r.csv", engine="pandas")
    assert [name.rsplit("/", 1)[1] for name in frame["log"].unique()] == ["log.0.csv", "log.1.csv", "log.10.csv"]
    assert len(frame) == 3 * 36 and logdur.summary(tmp_path / "log.%r.csv", engine="pandas").rows == 3 * 36
    with pytest.raises(FileNotFoundError, match="none.%r.csv: expected logs of processes, found none"):
        logdur.read_log(tmp_path / "none.%r.csv")


def test_what_is_open_is_read_to_its_end(folder, tmp_path):
    expected = cells(logdur.read_log(folder / "log.csv", engine="pandas"), "startNs")
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress((folder / "log.csv").read_bytes()))
    text = (folder / "log.csv").read_text()
    for opened in [open(folder / "log.csv"), open(folder / "log.csv", "rb"), gzip.open(packed), io.StringIO(text)]:
        with opened:
            assert cells(logdur.read_log(opened, engine="pandas"), "startNs") == expected
    frame = logdur.read_log([io.StringIO(text), io.StringIO(text), folder / "log.jsonl"], engine="pandas")
    assert frame["log"].tolist()[:72] == ["<StringIO>"] * 72 and frame["log"].tolist()[72] == str(folder / "log.jsonl")
    assert logdur.summary(io.BytesIO(text.encode()), engine="pandas").rows == 36
    closed = io.StringIO(text)
    closed.close()
    with pytest.raises(ValueError, match="closed file"):
        logdur.read_log(closed)
    with pytest.raises(logdur.LogError, match="<BytesIO>: line 1"):
        logdur.read_log(io.BytesIO(b"date,amount\n"))
    with pytest.raises(TypeError, match="expected bytes or text, found"):
        logdur.read_log(Reads(7))
    with pytest.raises(ZeroDivisionError):
        logdur.summary(Reads(None))


class Reads:
    """What gives no bytes, or fails."""

    def __init__(self, value):
        self.value = value

    def read(self, size):
        return 1 // 0 if self.value is None else self.value


def test_totals_are_those_of_the_rows(folder):
    rows = logdur.read_log(folder / "log.csv", engine="pandas")
    totals = logdur.summary(folder / "log.csv", engine="pandas")
    by_kernel = rows.groupby("kernel", observed=True).durationNs
    for group in totals.groups.itertuples():
        durations = by_kernel.get_group(group.name)
        found = (group.calls, group.totalNs, group.medianNs, group.maxNs)
        assert found == (len(durations), durations.sum(), durations.median(), durations.max())
    assert totals.rows == 36 and totals.account["seen"] == 36
    assert len(logdur.summary([folder / "log.csv", folder / "log.jsonl"], by="process", engine="polars").groups) == 2
    assert "<table" in totals._repr_html_()


def test_lines_that_are_no_rows_are_counted_and_the_first_is_named(folder, tmp_path):
    torn = tmp_path / "torn.csv"
    lines = (folder / "log.csv").read_text().splitlines()
    torn.write_text("\n".join([*lines, '"smooth",1,2', "nonsense"]))
    with pytest.warns(logdur.LogWarning, match=f"2 lines are no rows; the first: {torn}:{len(lines) + 1}: "):
        rows = logdur.read_log(torn, engine="pandas")
    assert len(rows) == 36


def test_what_is_no_log_is_named_with_the_reason(folder, tmp_path):
    foreign = tmp_path / "sales.csv"
    foreign.write_text("date,amount\n2024-01-01,3\n")
    with pytest.raises(logdur.LogError, match=r"sales\.csv: line 1: expected a header .*found .date,amount"):
        logdur.read_log(foreign)
    with pytest.raises(logdur.LogError, match=r"sales\.csv: line 1"):
        logdur.summary([folder / "log.csv", foreign])
    with pytest.raises(logdur.LogError, match=r"app\.ldcap"):
        logdur.read_log(folder / "app.ldcap")
    with pytest.raises(FileNotFoundError, match="none.csv"):
        logdur.read_log(tmp_path / "none.csv")
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        logdur.read_log(tmp_path)
    with pytest.raises(ValueError, match="empty list"):
        logdur.read_log([])
    with pytest.raises(ValueError, match="expected one of pandas, polars, pyarrow, found 'excel'"):
        logdur.read_log(folder / "log.csv", engine="excel")
    with pytest.raises(ValueError, match='expected one of kernel, .*found "colour"'):
        logdur.summary(folder / "log.csv", by="colour")


def test_an_empty_log_is_an_empty_frame(tmp_path):
    empty = tmp_path / "empty.csv"
    empty.write_text("kernel,dispatch,startNs,endNs\n# account: pid=1 seen=0 logged=0\n")
    for engine in ENGINES:
        assert len(logdur.read_log(empty, engine=engine)) == 0
        assert len(logdur.summary(empty, engine=engine).groups) == 0
