"""Progress bars: on where someone looks, silent elsewhere."""

import json
import sys

import pytest

from prisma_lib import execution, progress

HEAD = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% tags=["parameters"]
out: str = "."
scale: str = "cpu"
interactive: bool = True

# %%
import time
from pathlib import Path

from prisma_lib import progress

with progress.bar(3, "step", mininterval=0) as bar:
    for _ in range(3):
        time.sleep(0.5)
        bar.update()
_ = Path(out, "metrics.json").write_text("[]")
"""


def test_a_pipe_gets_no_bar(capsys):
    with progress.bar(3, "step") as bar:
        bar.update()

    assert bar.disable
    assert capsys.readouterr().err == ""


def test_a_bar_can_be_forced():
    with progress.bar(3, "step", shown=True, file=sys.stderr) as bar:
        assert not bar.disable


@pytest.mark.notebook
def test_a_headless_notebook_gets_no_bar(tmp_path):
    (tmp_path / "notebooks").mkdir()
    source = tmp_path / "notebooks" / "10_bar.py"
    source.write_text(HEAD)

    run = execution.execute(source, tmp_path / "run", {})

    assert run.status == "done", run.error
    book = json.loads((tmp_path / "run" / "notebook.ipynb").read_text())
    assert not any(cell.get("outputs") for cell in book["cells"])
