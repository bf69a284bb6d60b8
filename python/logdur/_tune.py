"""A search for better parameters, on any executor."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional, Union

from . import _frames, _progress, _samplers, _travel
from ._capture import Capture, Dispatch, Path
from ._errors import LogdurError, OptionError
from ._results import Rows, Shown, _table

#: An executor, or what makes one.
Workers = Union[Executor, Callable[[], Executor]]


@dataclass(frozen=True)
class Trial(Shown):
    """Parameters that were tried."""

    number: int
    params: dict[str, Any]
    #: ``done``, ``failed`` (the objective raised an exception) or ``lost`` (the worker died).
    state: str
    #: What the objective returned.
    value: Optional[float] = None
    #: Why there is no value.
    error: Optional[str] = None
    seconds: float = 0.0
    #: Host and process.
    worker: str = ""

    def _row(self) -> dict[str, Any]:
        return {
            "number": self.number,
            **self.params,
            "state": self.state,
            "value": self.value,
            "error": self.error,
            "seconds": self.seconds,
            "worker": self.worker,
        }


@dataclass(frozen=True)
class Tuning:
    """The trials of a search."""

    trials: list[Trial]
    #: How often the capture was sent to a machine.
    transfers: int

    @property
    def best(self) -> Trial:
        """The trial with the smallest value."""
        done = [trial for trial in self.trials if trial.value is not None]
        if not done:
            first = f"; the first: {self.trials[0].error}" if self.trials else ""
            raise LogdurError(f"none of {len(self.trials)} trials has a value{first}")
        return min(done, key=lambda trial: (trial.value, trial.number))

    def frame(self, *, engine: Optional[str] = None) -> Any:
        """A data frame with a row for each trial and a column for each parameter."""
        return _frames.of_rows([trial._row() for trial in self.trials], _frames.engine(engine))

    def _repr_html_(self) -> str:
        best = sorted((trial for trial in self.trials if trial.value is not None), key=lambda trial: trial.value or 0.0)
        if not best:
            return Rows(self.trials[:10])._repr_html_()
        return _table([{"number": trial.number, **trial.params, "value": trial.value} for trial in best[:10]])

    def __repr__(self) -> str:
        states = [trial.state for trial in self.trials]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        return f"<tuning of {len(states)} trials: {counts}>"


def measured(dispatch: Dispatch, params: dict[str, Any]) -> float:
    """The median duration with ``hsaco``, ``grid`` and ``workgroup`` of the parameters, verified."""
    return dispatch.measure(**params)


def tune(
    capture: Union[Capture, Dispatch, Path],
    space: Mapping[str, Any],
    objective: _travel.Objective = measured,
    *,
    executor: Optional[Workers] = None,
    sampler: Any = None,
    trials: Optional[int] = None,
    dispatch: Optional[int] = None,
    parallel: Optional[int] = None,
    seed: int = 0,
    progress: Optional[bool] = None,
) -> Tuning:
    """Searches for the parameters for which an objective is smallest.

    ``space`` has the values of each parameter. Without a sampler, every combination is tried, or ``trials`` random ones.
    ``sampler`` is asked for parameters and told the results: an Optuna study that minimizes, or any object with ``ask`` and
    ``tell``. For a study, ``space`` may have Optuna's distributions, too.

    ``objective(dispatch, params)`` runs on a worker and returns a number. Without it, ``dispatch.measure(**params)`` does. An
    exception is a failed trial; a parameter that is misspelt ends the search by :class:`OptionError`. ``capture`` may be one of its
    dispatches, too; otherwise ``dispatch`` is the number of the dispatch, if the capture has several.

    ``executor`` is any executor of ``concurrent.futures``: a process pool, ``Client.get_executor()`` of Dask,
    ``MPIPoolExecutor`` of mpi4py. Without it, trials run here, one after the other. ``parallel`` is how many trials are submitted
    at once; it defaults to the number of processors. The capture is sent once to each machine that lacks it.

    A worker that dies costs its trial. A process pool does not survive that: give a function that makes one, and it is made
    again. Times of an emulated GPU say nothing about hardware.

    >>> capture = logdur.Capture("app.ldcap", backend="emu")
    >>> found = logdur.tune(capture, {"workgroup": [64, 128, 256]})
    >>> sorted(trial.params["workgroup"] for trial in found.trials if trial.state == "done")
    [64, 128, 256]
    """
    if isinstance(capture, Dispatch):
        dispatch = capture.id
        capture = capture.capture
    opened = capture if isinstance(capture, Capture) else Capture(capture)
    source = _samplers.source(sampler, space, trials, seed)
    with _travel.placed(opened) as name:
        parcel = _travel.Parcel(name, _only(opened, dispatch).id, opened.place, opened.types)
        search = _Search(opened.path, parcel, objective, source, _Pool(executor))
        bar = _progress.bar(source.total, "trials", progress)
        try:
            search.run(1 if executor is None else parallel or os.cpu_count() or 1, bar)
        finally:
            bar.close()
            search.pool.close()
    return Tuning(sorted(search.trials, key=lambda trial: trial.number), search.transfers)


def _only(capture: Capture, dispatch: Optional[int]) -> Dispatch:
    if dispatch is not None:
        return capture.dispatch(dispatch)
    dispatches = capture.dispatches
    if len(dispatches) != 1:
        known = ", ".join(f"{one.id} ({one.kernel})" for one in dispatches)
        raise ValueError(f"{capture.path}: expected one dispatch, by its number; found {known or 'none'}")
    return dispatches[0]


class _Here(Executor):
    """Runs each call when it is submitted."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


class _Pool:
    """An executor that is made again when it breaks, if that is known how."""

    def __init__(self, given: Optional[Workers]) -> None:
        self._make = None if given is None or hasattr(given, "submit") else given
        self._executor: Any = _Here() if given is None else given if self._make is None else self._make()

    @property
    def is_made_again(self) -> bool:
        """True if a broken executor can be replaced."""
        return self._make is not None

    def submit(self, *call: Any) -> Future[Any]:
        """Runs a call; on a new executor, if this one is broken."""
        try:
            future: Future[Any] = self._executor.submit(*call)
        except BrokenExecutor:
            if self._make is None:
                raise
            self.close()
            self._executor = self._make()
            future = self._executor.submit(*call)
        return future

    def close(self) -> None:
        """Ends an executor that was made here."""
        if self._make is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)


@dataclass(frozen=True)
class _Asked:
    """Parameters that have no result yet."""

    number: int
    asked: Any
    params: dict[str, Any]
    #: The folder of the machine that lacked the capture, while it is sent.
    sent_to: Optional[str] = None
    #: The folder that lacked it when another trial was bringing it.
    lacked_by: Optional[str] = None
    #: True if it runs alone: it was lost with others, and one of them may have killed the worker.
    is_suspect: bool = False


class _Search:
    """The state of a search."""

    def __init__(
        self, path: str, parcel: _travel.Parcel, objective: _travel.Objective, source: _samplers.Source, pool: _Pool
    ) -> None:
        self.path, self.parcel, self.objective, self.source, self.pool = path, parcel, objective, source, pool
        self.trials: list[Trial] = []
        self.transfers = 0
        self._running: dict[Future[Any], _Asked] = {}
        #: What is submitted again: after a transfer, or alone.
        self._waiting: list[_Asked] = []
        #: Folders that have the capture.
        self._folders: set[str] = set()
        self._number = 0
        self._calls = 0
        self._is_over = False

    def run(self, parallel: int, bar: Any) -> None:
        """Runs trials until the source ends."""
        try:
            while self._fill(parallel):
                done, _ = wait(self._running, return_when=FIRST_COMPLETED)
                for future in done:
                    if self._take(self._running.pop(future), future, is_alone=parallel == 1):
                        bar.update()
        finally:
            for future in self._running:
                future.cancel()

    def _fill(self, parallel: int) -> bool:
        """Submits what may run now. False if nothing runs."""
        while len(self._running) < parallel:
            if any(asked.is_suspect for asked in self._running.values()):
                break
            asked = self._next()
            if asked is None:
                break
            self._submit(asked)
            if asked.is_suspect:
                break
        return bool(self._running)

    def _next(self) -> Optional[_Asked]:
        for at, asked in enumerate(self._waiting):
            is_sending = any(other.sent_to is not None for other in self._running.values())
            if asked.is_suspect and self._running or asked.sent_to is not None and is_sending:
                continue
            return self._waiting.pop(at)
        if self._is_over or self._waiting:
            return None
        asked_for = self.source.ask()
        if asked_for is None:
            self._is_over = True
            return None
        self._number += 1
        return _Asked(self._number - 1, *asked_for)

    def _submit(self, asked: _Asked) -> None:
        self._calls += 1
        parcel = self.parcel
        if asked.sent_to is not None:
            parcel = parcel.with_content(self.path)
            self.transfers += 1
        try:
            future = self.pool.submit(_travel.run, parcel, self.objective, asked.params, self._calls)
        except BrokenExecutor as error:
            self._end(error)
            self._lost(asked, error)
            return
        self._running[future] = asked

    def _take(self, asked: _Asked, future: Future[Any], is_alone: bool) -> bool:
        """Takes the answer of a call. False if its trial is not over."""
        try:
            answer = future.result()
        except BrokenExecutor as error:
            if not self.pool.is_made_again:
                self._end(error)
            elif not (is_alone or asked.is_suspect):
                # A broken executor ends all of its calls.
                self._waiting.append(replace(asked, is_suspect=True))
                return False
            self._lost(asked, error)
            return True
        except BaseException as error:
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            self._lost(asked, error)
            return True
        if isinstance(answer, _travel.Missing):
            folder = answer.folder
            # It may have arrived after the question.
            is_there = folder in self._folders and asked.lacked_by != folder
            self._waiting.append(replace(asked, sent_to=None if is_there else folder, lacked_by=folder))
            return False
        state = "done" if answer.error is None else "failed"
        trial = Trial(asked.number, asked.params, state, answer.value, answer.error, answer.seconds, answer.worker)
        self._add(asked, trial)
        if answer.is_last:
            raise OptionError(answer.error or "")
        self._folders.add(answer.folder)
        self._waiting = [replace(one, sent_to=None) if one.sent_to == answer.folder else one for one in self._waiting]
        return True

    def _lost(self, asked: _Asked, error: BaseException) -> None:
        self._add(asked, Trial(asked.number, asked.params, "lost", error=f"{type(error).__name__}: {error}"))

    def _add(self, asked: _Asked, trial: Trial) -> None:
        self.trials.append(trial)
        self.source.tell(asked.asked, trial.value)

    def _end(self, error: BaseException) -> None:
        if not self._is_over:
            warnings.warn(f"the search ends after {self._number} trials: the executor is broken: {error}", stacklevel=4)
        self._is_over = True
