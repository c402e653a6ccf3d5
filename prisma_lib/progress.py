"""Progress bars for people: on a terminal and in a notebook that someone runs.

Where nobody looks (a pipe, a log file, a headless notebook) there is none. Bars appear
after a second, so that short work stays silent.
"""

from typing import Any

from tqdm import auto, autonotebook, std


def bar(total: int, unit: str, *, shown: bool | None = None, **settings: Any) -> Any:
    """Makes a progress bar.

    Args:
        total: Number of units in all.
        unit: Name of a unit.
        shown: Force the bar on or off; None decides by who is looking.
        **settings: Further settings of tqdm.

    Returns:
        A tqdm bar, to be used as a context and moved by its `update`.
    """
    hidden = _nobody_looks() if shown is None else not shown
    return auto.tqdm(total=total, unit=unit, delay=1, disable=hidden, **settings)


def _nobody_looks() -> bool | None:
    if autonotebook.tqdm is std.tqdm:
        return None  # a terminal has a bar, a pipe has none: tqdm finds out
    # The notebook bar does not see TQDM_DISABLE, which headless runs set; this does.
    with std.tqdm(delay=3600) as plain:
        return bool(plain.disable)
