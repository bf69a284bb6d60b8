"""The package as people install it: its programs, its types and its examples."""

import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import logdur
from conftest import EMULATE

MODULES = [module.name for module in pkgutil.walk_packages(logdur.__path__, "logdur.") if "__main__" not in module.name]


def test_omniprobe_is_in_the_folder_of_python_and_the_doctor_finds_the_library():
    program = Path(sys.executable).parent / "omniprobe"
    direct = subprocess.run([program, "doctor", *EMULATE], capture_output=True, text=True)
    module = subprocess.run([sys.executable, "-m", "logdur", "doctor", *EMULATE], capture_output=True, text=True)
    assert direct.returncode == module.returncode == 0, direct.stderr + module.stderr
    assert "liblogdur.so is loaded by the runtime" in module.stdout and direct.stdout == module.stdout
    wrong = subprocess.run([program, "verify"], capture_output=True, text=True)
    assert wrong.returncode == 1 and "usage" in wrong.stderr.lower()


def test_the_package_is_the_installed_one_and_says_that_it_has_types():
    assert logdur.library().is_file() and logdur.omniprobe().parent == Path(logdur.__file__).parent / "bin"
    assert (Path(logdur.__file__).parent / "py.typed").is_file()


def test_to_import_the_package_loads_no_other():
    program = "import sys, logdur; print({'numpy', 'pandas', 'polars', 'pyarrow', 'optuna'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "set()\n"


def test_another_folder_of_programs_is_named_when_it_has_none(monkeypatch, tmp_path):
    monkeypatch.setenv("LOGDUR_TOOLS", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/omniprobe: no omniprobe there"):
        logdur.omniprobe()


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_the_documentation_have_these_outputs(name, folder, monkeypatch):
    monkeypatch.chdir(folder)
    result = doctest.testmod(importlib.import_module(name), extraglobs={"logdur": logdur})
    assert result.failed == 0
    if name in ("logdur._logs", "logdur._capture"):
        assert result.attempted > 0
