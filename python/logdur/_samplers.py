"""Where the parameters of trials come from: all combinations, or a sampler that is asked and told."""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Protocol


class Source(Protocol):
    """Gives parameters and takes results."""

    #: How many trials there are; None if that is not known.
    total: Optional[int]

    def ask(self) -> Optional[tuple[Any, dict[str, Any]]]:
        """What the source is told again, and the parameters; None at the end."""

    def tell(self, asked: Any, value: Optional[float]) -> None:
        """The result of a trial; None if it has none."""


def source(sampler: Any, space: Mapping[str, Any], trials: Optional[int], seed: int) -> Source:
    """The source for a sampler, or for none."""
    if sampler is None:
        return All(space, trials, seed)
    if not (hasattr(sampler, "ask") and hasattr(sampler, "tell")):
        raise TypeError(f"sampler: expected an object with ask and tell, found {type(sampler).__name__}")
    if trials is None:
        raise ValueError("trials: expected how many trials the sampler is asked for")
    is_study = type(sampler).__module__.partition(".")[0] == "optuna"
    return Study(sampler, space, trials) if is_study else Asked(sampler, space, trials)


class All:
    """Every combination of the values, or some that are drawn."""

    def __init__(self, space: Mapping[str, Any], trials: Optional[int], seed: int) -> None:
        for name, values in space.items():
            if not isinstance(values, (Sequence, range)) or isinstance(values, str) or not values:
                raise ValueError(f"space: expected a list of values of {name}, found {values!r}; samplers know others")
        count = math.prod(len(values) for values in space.values())
        numbers: Any = range(count)
        if trials is not None and trials < count:
            numbers = sorted(random.Random(seed).sample(numbers, trials))
        self.total: Optional[int] = len(numbers)
        combinations: Iterator[tuple[Any, ...]] = itertools.product(*space.values())
        wanted = set(numbers) if trials is not None else None
        self._rest = (
            dict(zip(space, values))
            for number, values in enumerate(combinations)
            if wanted is None or number in wanted
        )

    def ask(self) -> Optional[tuple[Any, dict[str, Any]]]:
        """The next combination."""
        params = next(self._rest, None)
        return None if params is None else (None, params)

    def tell(self, asked: Any, value: Optional[float]) -> None:
        """Nothing depends on it."""


class Asked:
    """A sampler with ``ask`` and ``tell``. It gives a mapping, a candidate with ``kwargs``, or values in the order of the space."""

    def __init__(self, sampler: Any, space: Mapping[str, Any], trials: int) -> None:
        self.sampler, self.space = sampler, space
        self.total: Optional[int] = trials
        self._left = trials

    def ask(self) -> Optional[tuple[Any, dict[str, Any]]]:
        """What the sampler proposes."""
        if self._left == 0:
            return None
        self._left -= 1
        try:
            asked = self.sampler.ask()
        except StopIteration:
            return None
        if asked is None:
            return None
        if isinstance(asked, Mapping):
            return asked, dict(asked)
        if hasattr(asked, "kwargs"):
            return asked, dict(asked.kwargs)
        values = list(asked)
        if len(values) != len(self.space):
            raise ValueError(f"sampler: expected values of {', '.join(self.space)}, found {values!r}")
        return asked, dict(zip(self.space, values))

    def tell(self, asked: Any, value: Optional[float]) -> None:
        """A trial without a result is as bad as can be."""
        self.sampler.tell(asked, math.inf if value is None else value)


class Study:
    """A study of Optuna. Lists of values are categories; others are Optuna's distributions."""

    def __init__(self, study: Any, space: Mapping[str, Any], trials: int) -> None:
        directions = [direction.name for direction in study.directions]
        if directions != ["MINIMIZE"]:
            raise ValueError(f"sampler: expected a study that minimizes one value, found {', '.join(directions)}")
        optuna = sys.modules["optuna"]
        category = optuna.distributions.CategoricalDistribution
        self.study = study
        self.total: Optional[int] = trials
        self.failed = optuna.trial.TrialState.FAIL
        self.space = {
            name: category(list(values)) if isinstance(values, (Sequence, range)) else values
            for name, values in space.items()
        }
        self._left = trials

    def ask(self) -> Optional[tuple[Any, dict[str, Any]]]:
        """What the study proposes."""
        if self._left == 0:
            return None
        self._left -= 1
        trial = self.study.ask(self.space)
        return trial, dict(trial.params)

    def tell(self, asked: Any, value: Optional[float]) -> None:
        """A trial without a result has failed."""
        if value is None:
            self.study.tell(asked, state=self.failed)
        else:
            self.study.tell(asked, value)
