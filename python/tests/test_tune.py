"""Searches on executors that exist, with samplers that exist, and with workers that die."""

import concurrent.futures
import os
import signal
import time

import optuna
import pytest

import logdur
from conftest import PLACE
from logdur import _travel

WORKGROUPS = [64, 128, 256]
optuna.logging.set_verbosity(optuna.logging.WARNING)


def instructions(dispatch, params):
    """A measure that is the same on each run: executed instructions."""
    counted = dispatch.analyze(what="mix", workgroup=params["workgroup"])
    return counted.totals["instructions"]


def kills_its_worker(dispatch, params):
    """Dies for one workgroup."""
    if params["workgroup"] == 128:
        os.kill(os.getpid(), signal.SIGKILL)
    return float(params["workgroup"])


def two_processes():
    return concurrent.futures.ProcessPoolExecutor(2)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A folder of captures of its own."""
    folder = tmp_path / "captures"
    monkeypatch.setenv(_travel.VARIABLE, str(folder))
    return folder


@pytest.fixture
def dask_clients(tmp_path, folder):
    """Two workers of Dask on a machine that does not have the capture."""
    distributed = pytest.importorskip("distributed")
    environment = {_travel.VARIABLE: str(tmp_path / "on the workers")}
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", env=environment, local_directory=tmp_path / "dask"
    )
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_a_dispatch_is_tuned_like_the_capture_that_has_it(capture, cache):
    found = logdur.tune(capture.dispatches[0], {"workgroup": WORKGROUPS})
    assert [trial.state for trial in found.trials] == ["done"] * 3


def test_every_combination_is_tried_here_and_the_best_is_found(capture, faster, cache):
    found = logdur.tune(capture, {"workgroup": WORKGROUPS, "hsaco": ["captured", str(faster)]})
    assert [trial.state for trial in found.trials] == ["done"] * 6 and found.transfers == 0
    assert found.best.params["hsaco"] == str(faster)
    assert found.frame(engine="pandas")["value"].min() == found.best.value
    assert list(cache.iterdir()) == [], "the capture is there only as long as it is used"
    assert "<table>" in found._repr_html_()


def test_kernels_that_compute_something_else_are_failed_trials(capture, wrong, cache):
    found = logdur.tune(capture, {"hsaco": [str(wrong), "captured"]})
    failed, done = found.trials
    assert (failed.state, failed.value, done.state) == ("failed", None, "done")
    assert "arg1[77]: expected" in failed.error and found.best == done
    with pytest.raises(logdur.LogdurError, match=r"none of 1 trials has a value; the first: ToolError.*arg1\[77\]"):
        _ = logdur.tune(capture, {"hsaco": [str(wrong)]}).best


def test_some_random_combinations_are_always_the_same(capture, cache):
    space = {"workgroup": range(64, 257, 64), "grid": [16384]}
    first, second = (logdur.tune(capture, space, instructions, trials=2, seed=7) for _ in range(2))
    assert [trial.params for trial in first.trials] == [trial.params for trial in second.trials]
    assert len(first.trials) == 2


def test_a_study_of_optuna_is_asked_and_told(capture, faster, cache):
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    space = {"workgroup": optuna.distributions.IntDistribution(64, 256, step=64), "hsaco": ["captured", str(faster)]}
    found = logdur.tune(capture, space, sampler=study, trials=6)
    assert len(study.trials) == len(found.trials) == 6
    assert study.best_value == found.best.value and study.best_params == found.best.params
    with pytest.raises(ValueError, match="minimizes one value, found MAXIMIZE"):
        logdur.tune(capture, space, sampler=optuna.create_study(direction="maximize"), trials=1)
    with pytest.raises(ValueError, match="how many trials"):
        logdur.tune(capture, space, sampler=study)


def test_a_misspelt_parameter_ends_the_search(capture, cache):
    with pytest.raises(logdur.OptionError, match="no option 'workgrup'; did you mean workgroup"):
        logdur.tune(capture, {"workgrup": WORKGROUPS})
    with two_processes() as pool, pytest.raises(logdur.OptionError, match="no parameter 'workgroup'; expected one of block"):
        logdur.tune(capture, {"block": WORKGROUPS}, instructions, executor=pool)
    study = optuna.create_study()
    with pytest.raises(logdur.OptionError):
        logdur.tune(capture, {"workgrup": WORKGROUPS}, sampler=study, trials=6)
    assert [trial.state.name for trial in study.trials] == ["FAIL"]
    with pytest.raises(TypeError, match="analyze: there is no option 'wat'"):
        capture.dispatches[0].analyze(wat="mix")


class Halving:
    """A sampler of a few lines: values in the order of the space."""

    def __init__(self):
        self.told = []

    def ask(self):
        return [256 >> len(self.told)] if len(self.told) < 3 else None

    def tell(self, asked, value):
        self.told.append((asked, value))


def test_any_object_with_ask_and_tell_is_a_sampler(capture, cache):
    sampler = Halving()
    found = logdur.tune(capture, {"workgroup": None}, instructions, sampler=sampler, trials=10)
    assert [trial.params["workgroup"] for trial in found.trials] == WORKGROUPS[::-1]
    assert sampler.told == [([trial.params["workgroup"]], trial.value) for trial in found.trials]
    with pytest.raises(TypeError, match="ask and tell, found str"):
        logdur.tune(capture, {}, sampler="random", trials=1)
    with pytest.raises(ValueError, match="a list of values of n, found 5"):
        logdur.tune(capture, {"n": 5})


def test_a_pool_of_processes_runs_trials_and_one_that_dies_costs_its_trial(capture, cache):
    with two_processes() as pool:
        found = logdur.tune(capture, {"workgroup": WORKGROUPS}, instructions, executor=pool, parallel=2)
    assert [trial.state for trial in found.trials] == ["done"] * 3
    assert all(int(trial.worker.split(":")[-1]) != os.getpid() for trial in found.trials)
    space = {"workgroup": [64, 128, 256, 512]}
    found = logdur.tune(capture, space, kills_its_worker, executor=two_processes, parallel=2)
    assert [trial.state for trial in found.trials] == ["done", "lost", "done", "done"]
    assert found.best.value == 64 and "BrokenProcessPool" in found.trials[1].error


def test_a_pool_that_cannot_be_made_again_ends_the_search_with_what_was_found(capture, cache):
    with two_processes() as pool, pytest.warns(UserWarning, match="the executor is broken"):
        space = {"workgroup": [64, 256, 128, 512, 1024]}
        found = logdur.tune(capture, space, kills_its_worker, executor=pool, parallel=1)
    assert [trial.state for trial in found.trials] == ["done", "done", "lost"] and found.best.value == 64


def test_the_capture_travels_once_to_the_workers_of_dask(capture, dask_clients, tmp_path):
    def counted(dispatch, params):
        time.sleep(0.2)
        return dispatch.analyze(what="mix", workgroup=params["workgroup"]).totals["instructions"]

    space = {"workgroup": WORKGROUPS, "grid": [16384, 16384]}
    found = logdur.tune(capture, space, counted, executor=dask_clients.get_executor(), parallel=2)
    assert [trial.state for trial in found.trials] == ["done"] * 6 and found.transfers == 1
    assert len({trial.worker for trial in found.trials}) == 2, "both workers had trials"
    (sent,) = (tmp_path / "on the workers").iterdir()
    assert sent.read_bytes() == open(capture.path, "rb").read() and sent.stem == _travel.content_name(capture.path)
    here = logdur.tune(capture, space, instructions)
    assert [trial.value for trial in found.trials] == [trial.value for trial in here.trials]


def test_a_worker_of_dask_that_dies_costs_its_trial(capture, dask_clients):
    def dies(dispatch, params):
        if params["workgroup"] == 128:
            os.kill(os.getpid(), signal.SIGKILL)
        return float(params["workgroup"])

    executor = dask_clients.get_executor(retries=0)
    found = logdur.tune(capture, {"workgroup": WORKGROUPS}, dies, executor=executor, parallel=2)
    assert [trial.state for trial in found.trials] == ["done", "lost", "done"]
    assert "KilledWorker" in found.trials[1].error


def test_a_damaged_copy_is_replaced_and_an_unsafe_folder_is_refused(capture, cache):
    cache.mkdir(mode=0o700)
    name = _travel.content_name(capture.path)
    copy = cache / f"{name}.ldcap"
    parcel = _travel.Parcel(name, capture.dispatches[0].id, capture.place, {})
    copy.write_bytes(b"something else")
    answer = _travel.run(parcel, kills_its_worker, {"workgroup": 64}, 1)
    assert isinstance(answer, _travel.Missing) and not copy.exists()
    assert _travel.run(parcel.with_content(capture.path), kills_its_worker, {"workgroup": 64}, 1).value == 64
    cache.chmod(0o777)
    with pytest.raises(PermissionError, match="only user"):
        logdur.tune(capture, {"workgroup": WORKGROUPS}, instructions)


def test_a_capture_of_several_dispatches_needs_a_number(folder, cache):
    whole = logdur.Capture(folder / "whole.ldcap", **PLACE)
    with pytest.raises(ValueError, match=r"expected one dispatch, by its number; found \d+ \((smooth|total)\), "):
        logdur.tune(whole, {"workgroup": [256]})
    found = logdur.tune(whole, {"workgroup": [256]}, dispatch=whole.dispatches[1].id)
    assert found.best.state == "done"
