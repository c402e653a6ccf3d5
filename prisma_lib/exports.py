"""Copies of executed notebooks for people: a web page, a gallery entry, a thumbnail."""

import base64
import io
import json
from pathlib import Path
from typing import Any

from prisma_lib import pairing
from prisma_lib.errors import DataError
from prisma_lib.files import write_atomically

LARGEST_COPY = 300_000
LARGEST_THUMBNAIL = 60_000
# Colours and pixels across, in the order in which they are given up. Fewer colours come
# first: a smaller copy of a picture of many flat squares can have more bytes.
REDUCTIONS = (
    *((colours, 4000) for colours in (256, 128, 64)),
    *((64, width) for width in (1200, 900, 700, 500, 400, 300, 200, 100)),
)
OFFLINE = """{% extends 'lab/index.html.j2' %}
{% block html_head_js %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
{% block jupyter_widgets %}{% endblock %}
"""

Book = dict[str, Any]


def load(path: Path) -> Book:
    """Reads an executed notebook."""
    book: Book = json.loads(path.read_text("utf-8"))
    return book


def page(notebook: Path, target: Path) -> None:
    """Writes an executed notebook as a web page that loads nothing from elsewhere.

    HTML in the notebook is sanitised; formulas stay as they are written.

    Args:
        notebook: The executed notebook.
        target: The page.
    """
    import nbformat
    from jinja2 import DictLoader
    from nbconvert import HTMLExporter

    exporter = HTMLExporter(  # type: ignore[no-untyped-call]
        template_name="lab",
        template_file="offline.html.j2",
        extra_loaders=[DictLoader({"offline.html.j2": OFFLINE})],
        sanitize_html=True,
    )
    book = nbformat.reads(  # type: ignore[no-untyped-call]
        pairing.render(plain(load(notebook))), as_version=4
    )
    html, _ = exporter.from_notebook_node(
        book, resources={"metadata": {"name": notebook.parent.name}}
    )
    write_atomically(target, html.encode())


def plain(book: Book) -> Book:
    """Drops what differs between runs and machines: times, paths, widget states."""
    cells = []
    for position, cell in enumerate(book["cells"]):
        kept = pairing.clean(cell, position)
        if cell["cell_type"] == "code":
            kept["outputs"] = [output_of(output) for output in cell["outputs"]]
            kept["execution_count"] = cell["execution_count"]
        cells.append(kept)
    kernel = book["metadata"]["kernelspec"]
    return {**book, "cells": cells, "metadata": {"kernelspec": kernel}}


def output_of(output: Book) -> Book:
    """Drops the widget view of an output, which is nothing without its kernel."""
    if "data" not in output:
        return output
    kept = {k: v for k, v in output["data"].items() if "jupyter.widget-view" not in k}
    return {**output, "data": kept}


def pictures(cell: Book) -> list[Book]:
    """Returns the outputs of a cell that hold a PNG."""
    outputs = cell.get("outputs", [])
    return [item for item in outputs if "image/png" in item.get("data", {})]


def encoded(picture: Book) -> bytes:
    """Returns the bytes of an output's PNG."""
    text = picture["data"]["image/png"]
    return base64.b64decode(text if isinstance(text, str) else "".join(text))


def thumbnail(book: Book) -> bytes:
    """Picks the picture that stands for a notebook.

    Args:
        book: An executed notebook.

    Returns:
        A small PNG: the last picture of the cell tagged `thumbnail`, or of all cells.

    Raises:
        DataError: When the notebook shows no picture.
    """
    cells = book["cells"]
    tagged = [c for c in cells if "thumbnail" in c["metadata"].get("tags", [])]
    for group in (tagged, cells):
        found = [picture for cell in group for picture in pictures(cell)]
        if found:
            return small_enough(encoded(found[-1]))
    raise DataError("the notebook shows no picture: a gallery entry needs one figure")


def small_enough(png: bytes) -> bytes:
    """Reduces a picture until it may be a thumbnail."""
    for colours, width in REDUCTIONS:
        if len(png) <= LARGEST_THUMBNAIL:
            break
        png = reduced(png, colours, width)
    return png


def reduced(png: bytes, colours: int, width: int) -> bytes:
    """Writes a picture with fewer colours and at most so many pixels across.

    Args:
        png: The picture.
        colours: Number of colours.
        width: Most pixels across.

    Returns:
        The reduced picture, or the picture itself if that has fewer bytes.
    """
    from PIL import Image

    image = Image.open(io.BytesIO(png)).convert("RGB")
    if width < image.width:
        image = image.resize((width, round(image.height * width / image.width)))
    # The median cut, which is the default, gives thin lines and the ends of a colour
    # map the colour of something larger.
    image = image.quantize(colours, Image.Quantize.MAXCOVERAGE, kmeans=1)
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return min(png, buffer.getvalue(), key=len)


def copy(book: Book) -> bytes:
    """Makes the copy of an executed notebook that the gallery keeps.

    Args:
        book: An executed notebook.

    Returns:
        Its bytes, with pictures made smaller until they fit.

    Raises:
        DataError: When it does not fit even then.
    """
    book = plain(book)
    found = [picture for cell in book["cells"] for picture in pictures(cell)]
    whole = [encoded(picture) for picture in found]
    content = pairing.render(book)
    for colours, width in REDUCTIONS:
        if len(content) <= LARGEST_COPY:
            return content
        for picture, png in zip(found, whole, strict=True):
            small = base64.b64encode(reduced(png, colours, width)).decode()
            picture["data"]["image/png"] = small
        content = pairing.render(book)
    if len(content) > LARGEST_COPY:
        raise DataError(
            f"the executed copy has {len(content) // 1000} kB, of which "
            f"{LARGEST_COPY // 1000} are allowed: print less and draw fewer figures"
        )
    return content
