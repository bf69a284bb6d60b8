"""Columns as data frames of the library that is there."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any, Optional

#: The libraries in the order in which they are looked for.
ENGINES = ("pandas", "polars", "pyarrow")


def engine(name: Optional[str]) -> str:
    """The library that is asked for, else one that is imported already, else one that is installed."""
    if name is not None:
        if name not in ENGINES:
            raise ValueError(f"engine: expected one of {', '.join(ENGINES)}, found {name!r}")
        return name
    for known in ENGINES:
        if known in sys.modules:
            return known
    for known in ENGINES:
        if importlib.util.find_spec(known) is not None:
            return known
    raise ImportError(f"a data frame needs one of {', '.join(ENGINES)}; none is installed")


def of_columns(columns: list[tuple[str, str, Any, Any]], name: str) -> Any:
    """A frame of the columns that ``_native.read_log`` returns."""
    import numpy as np

    library = importlib.import_module(name)
    frame = {}
    for title, kind, values, other in columns:
        if kind == "text":
            frame[title] = _texts(library, name, np.frombuffer(values, np.int32), list(other))
        else:
            numbers = np.frombuffer(values, np.uint64 if kind == "address" else np.int64)
            frame[title] = _numbers(library, name, numbers, np.frombuffer(other, np.bool_))
    if name == "pandas":
        return library.DataFrame(frame, copy=False)
    if name == "polars":
        return library.DataFrame([series.alias(title) for title, series in frame.items()])
    return library.table(frame)


def _numbers(library: Any, name: str, values: Any, empty: Any) -> Any:
    if name == "pandas":
        return library.arrays.IntegerArray(values, empty)
    if name == "polars":
        full, series = library.Series(~empty), library.Series(values)
        return library.select(library.when(full).then(series)).to_series()
    return library.array(values, mask=empty)


def _texts(library: Any, name: str, places: Any, texts: list[str]) -> Any:
    if name == "pandas":
        return library.Categorical.from_codes(places, texts)
    if name == "polars":
        known = library.Series(texts, dtype=library.String)
        at = library.Series(places)
        at = library.select(library.when(at >= 0).then(at)).to_series()
        return known.gather(at).cast(library.Categorical)
    indices, known = library.array(places, mask=places < 0), library.array(texts, library.string())
    return library.DictionaryArray.from_arrays(indices, known)


def of_rows(rows: list[dict[str, Any]], name: str) -> Any:
    """A frame of a dictionary for each row."""
    library = importlib.import_module(name)
    if name == "pandas":
        return library.DataFrame(rows)
    if name == "polars":
        return library.DataFrame(rows, infer_schema_length=None)
    return library.Table.from_pylist(rows)
