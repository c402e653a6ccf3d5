"""A project of a notebook that runs in a second."""

import shutil
from pathlib import Path

SCALES = Path(__file__).parents[1] / "params" / "scales"

HEADER = """\
# ---
# jupyter:
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---
"""

WRITE = """\
row = {"method": "prisma", "direction": "forward", "regime": "full"}
row |= {"metric": "double", "value": double, "n": n, "seconds_per_sample": rate}
(Path(out) / "metrics.json").write_text(json.dumps([row]))
"""

DRAW = """\
figure, axes = plt.subplots(figsize=(4, 3))
axes.imshow([[(i * j * 7919) % 97 for i in range(300)] for j in range(300)])
figure.savefig(Path(out) / "x.png")
"""

NOTEBOOK = f"""\
{HEADER}
# %% [markdown]
# # Tiny

# %% tags=["parameters"]
n: int = 2  # a number
rate: float = 0.5  # another
fail: str = ""  # any text makes the run fail
out: str = "outputs/scratch/tiny"  # where results go
scale: str = "cpu"  # names the sizes
interactive: bool = True  # offer sliders

# %%
import json
from pathlib import Path

# %%
assert not fail, fail
double = 2 * n

# %%
{WRITE}
"""

TOUR = NOTEBOOK.replace(
    "# %%\nassert not fail",
    f'# %% tags=["thumbnail"]\nimport matplotlib.pyplot as plt\n\n{DRAW}\n'
    "# %%\nassert not fail",
)


def project(folder):
    """Makes a project's folder with a notebook, a tour and the scales.

    Args:
        folder: Where.

    Returns:
        The folder.
    """
    (folder / "notebooks").mkdir()
    for name in ("00_tour", "10_tiny"):
        (folder / "notebooks" / f"{name}.py").write_text(TOUR)
    (folder / "params").mkdir()
    shutil.copytree(SCALES, folder / "params" / "scales")
    return folder
