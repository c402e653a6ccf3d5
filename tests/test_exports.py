"""Copies for the gallery are small, and what a picture says survives."""

import io

import matplotlib.pyplot as plt
import numpy as np
from PIL import Image

from prisma_lib import exports


def test_fewer_colours_keep_a_thin_line_and_the_ends_of_a_colour_map():
    places = np.linspace(-1, 1, 400)
    field = np.add.outer(places, np.sin(9 * places)) / 2
    picture = plt.get_cmap("viridis")(field / 2 + 0.5)[..., :3]
    picture[:20] = plt.get_cmap("RdBu_r")(np.linspace(0, 1, 400))[:, :3]
    picture[200, ::2] = 0.84, 0.37, 0.0
    whole = (255 * picture).round().astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(whole).save(buffer, "PNG")

    few = exports.reduced(buffer.getvalue(), colours=64, width=400)

    found = np.asarray(Image.open(io.BytesIO(few)).convert("RGB")).astype(int)
    assert len(np.unique(found.reshape(-1, 3), axis=0)) <= 64
    assert np.abs(found - whole).max() < 40
