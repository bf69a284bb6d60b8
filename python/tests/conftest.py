"""Logs and captures of real HIP programs, on the emulated GPU or (LOGDUR_TEST_DEVICE=real) on hardware."""

import os
import subprocess
from pathlib import Path

import pytest

import logdur

ROOT = Path(__file__).resolve().parents[2]
ARCH = os.environ.get("LOGDUR_TEST_ARCH", "gfx90a")
HIPCC = os.environ.get("LOGDUR_TEST_HIPCC", "hipcc")
#: Options of `omniprobe` and of captures.
ON_HARDWARE = os.environ.get("LOGDUR_TEST_DEVICE") == "real"
EMULATE = [] if ON_HARDWARE else ["--emulate", ARCH]
PLACE = {} if ON_HARDWARE else {"backend": "emu"}


def probed(folder, *words, **variables):
    """Runs `omniprobe` in a folder."""
    command = [logdur.omniprobe(), *EMULATE, *words]
    done = subprocess.run(command, cwd=folder, env={**os.environ, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def code_object(folder, name, *options, change=("", "")):
    """The application's source compiled for the GPU alone, with a text replaced."""
    source = (ROOT / "docs/example/pipeline.hip").read_text()
    assert change[0] in source
    (folder / f"{name}.hip").write_text(source.replace(*change))
    command = [HIPCC, "--cuda-device-only", "--no-gpu-bundle-output", "-c", f"--offload-arch={ARCH}", "-O3", *options]
    subprocess.run([*command, f"{name}.hip", "-o", f"{name}.hsaco"], cwd=folder, check=True)
    return folder / f"{name}.hsaco"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A folder with the application of the documents, its logs and its captures."""
    folder = tmp_path_factory.mktemp("pipeline")
    source = ROOT / "docs/example/pipeline.hip"
    subprocess.run([HIPCC, f"--offload-arch={ARCH}", "-O3", source, "-o", "pipeline"], cwd=folder, check=True)
    captured = ["--capture", "app.ldcap", "--capture-kernels", "smooth", "--capture-compress", "lz4"]
    probed(folder, *captured, "-l", "log.csv", "--", "./pipeline", SLURM_PROCID="0")
    probed(folder, "-t", "json", "-l", "log.jsonl", "--", "./pipeline", SLURM_PROCID="1")
    whole = ["--capture", "whole.ldcap", "--capture-kernels", "smooth|total", "--capture-compress", "none"]
    probed(folder, *whole, "-l", "/dev/null", "--", "./pipeline")
    return folder


@pytest.fixture(scope="session")
def faster(folder):
    """Code of which `smooth` computes the same, faster."""
    return code_object(folder, "faster", "-DFASTER")


@pytest.fixture(scope="session")
def wrong(folder):
    """Code of which `smooth` computes something else."""
    return code_object(folder, "wrong", change=("sum / WIDTH;", "sum / WIDTH + (i == 77);"))


@pytest.fixture
def capture(folder):
    """The capture of `smooth`."""
    return logdur.Capture(folder / "app.ldcap", **PLACE)
