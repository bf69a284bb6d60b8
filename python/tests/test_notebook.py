"""The notebook of the documents, run cell by cell."""

import shutil

import nbclient
import nbformat

from conftest import ARCH, ON_HARDWARE, ROOT


def test_the_notebook_runs_and_finds_a_better_kernel(tmp_path, monkeypatch):
    examples = ROOT / "docs/example"
    # What Triton compiled and Python cached stays out of the tree.
    shutil.copy(examples / "matmul.py", tmp_path)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(examples / "matmul.ipynb", 4)
    settings = [cell for cell in notebook.cells if "ARCH, EMULATE, BACKEND =" in cell.source]
    assert len(settings) == 1
    here = "[], None" if ON_HARDWARE else f"['--emulate', {ARCH!r}], 'emu'"
    settings[0].source += f"\nARCH, EMULATE, BACKEND = {ARCH!r}, {here}"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    text = "".join(output.get("text", "") + str(output.get("data", "")) for output in outputs)
    assert "1 dispatches of 1 kernels captured" in text and "PASS" in text
    assert "FAIL" in text and "elements differ" in text
    assert any("image/png" in output.get("data", {}) for output in outputs), "a plot"
    better = next(line for line in text.splitlines() if line.startswith("best:"))
    assert float(better.split()[-3]) < 1
