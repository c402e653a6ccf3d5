"""The explorers in a real browser: JupyterLab and Voilà, driven as a person would.

Needs the system's Chromium and the extras `browser` and `lab`. SCREENSHOTS names a
folder that keeps the pictures; those of the gallery are made by

    SCREENSHOTS=outputs/gallery python -m pytest -m browser tests/test_browser.py
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

from prisma_lib.exports import reduced

play = pytest.importorskip("playwright.sync_api", reason="needs the extra browser")

ROOT = Path(__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("residuals", "spectra", "posterior", "sensors")
LIVE = "from prisma_lib.explore.shell import SHOWN\n" + (
    "print(sum(len(shells) for _, shells in SHOWN.values()), 'explorers live')"
)
TOKEN = "a-token-of-this-test"
EXTENSIONS = (
    "@jupyter-widgets/jupyterlab-manager",
    "@voila-dashboards/widgets-manager8",
    "anywidget",
)
PATIENCE = 240_000  # milliseconds; a busy machine starts a kernel slowly

RUN_ALL = """async () => {
  const app = window.jupyterapp;
  await app.restored;
  const context = app.shell.currentWidget.sessionContext;
  await context.ready;
  await context.session.kernel.info;
  await app.commands.execute('notebook:run-all-cells');
}"""
HIDE_FILES = "() => window.jupyterapp.commands.execute('application:toggle-left-area')"
PICTURES = """() => [...document.querySelectorAll('img')]
  .map(image => image.src).filter(src => src.startsWith('blob:'))"""

# What the console calls an error though it is none of ours, by a part of it.
NOT_OURS = ("cdn.jsdelivr.net/npm/@fortawesome",)  # icons that Voilà asks a CDN for

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of what drives the browser
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextlib.contextmanager
def serving(command, port, folder):
    """Runs a server until it is no longer needed."""
    names = ("CONFIG", "DATA", "RUNTIME")
    own = {f"JUPYTER_{name}_DIR": str(folder / name.lower()) for name in names}
    env = {**os.environ, **own, "IPYTHONDIR": str(folder / "ipython")}
    env |= {"PYTHONPATH": str(ROOT), "OMP_WAIT_POLICY": "PASSIVE"}
    with open(folder / "server.log", "w") as log:
        server = subprocess.Popen(command, env=env, stdout=log, stderr=log)
        try:
            for _ in range(480):
                assert server.poll() is None, (folder / "server.log").read_text()[
                    -2000:
                ]
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), timeout=5).close()
                    break
                time.sleep(0.5)
            yield
        finally:
            server.terminate()
            server.wait(30)


@contextlib.contextmanager
def jupyterlab(folder):
    port = free_port()
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    name = "notification.jupyterlab-settings"
    (settings / name).write_text(json.dumps(quiet))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"]
    command += ["--ServerApp.ip=127.0.0.1", f"--ServerApp.port={port}"]
    command += [f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={folder}"]
    command += ["--LabApp.expose_app_in_browser=True"]
    command += [f"--LabApp.workspaces_dir={folder / 'workspaces'}"]
    command += [f"--LabApp.user_settings_dir={folder / 'settings'}"]
    url = f"http://127.0.0.1:{port}"
    with serving(command, port, folder):
        yield f"{url}/lab/tree/explorer.ipynb?token={TOKEN}&reset"


@contextlib.contextmanager
def voila(folder):
    port = free_port()
    command = [sys.executable, "-m", "voila", str(folder / "explorer.ipynb")]
    command += ["--no-browser", "--Voila.ip=127.0.0.1", f"--port={port}"]
    command += [f"--Voila.token={TOKEN}"]
    # As `make explore` says: other extensions want parts that only JupyterLab has.
    command += [
        f"--VoilaConfiguration.extension_allowlist={name}" for name in EXTENSIONS
    ]
    url = f"http://127.0.0.1:{port}"
    with serving(command, port, folder):
        yield f"{url}/?token={TOKEN}"


@contextlib.contextmanager
def page_of(address, folder):
    """Opens a page; at its end nothing may have gone wrong in the console.

    The folder gets a picture of a page on which a test fails.
    """
    errors = []
    with play.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.extend(complaints(message)))
        page.goto(address)
        try:
            yield page
        except BaseException:
            page.screenshot(path=folder / "failed.png")
            print("console:", *errors, sep="\n")
            raise
        finally:
            browser.close()
    assert not errors, errors


def complaints(message):
    """Yields an error of the console, unless it is not about us."""
    said = f"{message.text} {message.location.get('url', '')}"
    if message.type == "error" and not any(text in said for text in NOT_OURS):
        yield said


@pytest.fixture
def shots(tmp_path):
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def folder(tmp_path):
    """Holds the notebook, which in the end says how many explorers there are."""
    book = nbformat.read(ROOT / "notebooks" / "60_explorer.ipynb", as_version=4)
    book.cells.append(nbformat.v4.new_code_cell(LIVE))
    nbformat.write(book, tmp_path / "explorer.ipynb")
    return tmp_path


def explorers(page, old=()):
    """Returns the four explorers of the page, once all of them show a new picture."""
    page.wait_for_function(
        f"old => ({PICTURES})().filter(src => !old.includes(src)).length >= 4",
        arg=list(old),
    )
    found = page.locator(".widget-vbox:has(img[src^='blob:'])")
    assert found.count() == 4
    return [found.nth(i) for i in range(4)]


def photographed(explorer, path):
    """Keeps a picture that may stand in the gallery."""
    path.write_bytes(reduced(explorer.screenshot(), colours=256, width=1000))
    assert path.stat().st_size <= 150_000


def changed(page, explorer, act):
    """Does something: this explorer shows another picture, every other the same."""
    image = explorer.locator("img[src^='blob:']").element_handle()
    before = image.get_attribute("src")
    others = {*page.evaluate(PICTURES)} - {before}
    act()
    page.wait_for_function("([image, old]) => image.src !== old", arg=[image, before])
    explorer.get_by_role("button", name="stop", disabled=True).wait_for()
    assert others < {*page.evaluate(PICTURES)}


def slider(explorer, label):
    """Returns the handle of a slider."""
    return explorer.locator(f".widget-slider:has-text('{label}') .noUi-handle")


def move_each_control(page, explorer):
    """Moves every slider by a key and every list by one entry; returns their number."""
    sliders = explorer.locator(".widget-slider:not(:has([disabled])) .noUi-handle")
    lists = explorer.locator("select:not([disabled])")
    for i in range(sliders.count()):
        handle = sliders.nth(i)
        now, most = (handle.get_attribute(f"aria-value{end}") for end in ("now", "max"))
        key = "ArrowLeft" if float(now) == float(most) else "ArrowRight"
        changed(page, explorer, lambda h=handle, k=key: h.press(k))
    moved = sliders.count()
    for i in range(lists.count()):
        one, options = lists.nth(i), lists.nth(i).locator("option")
        brush = options.first.text_content().startswith("add")  # moves no picture
        if options.count() > 1 and not brush:
            other = (one.evaluate("list => list.selectedIndex") + 1) % options.count()
            changed(page, explorer, lambda o=one, j=other: o.select_option(index=j))
            moved += 1
    return moved


def play_and_point(page, residuals):
    """Lets the trajectory run, and reads the value under the pointer."""
    slider(residuals, "step shown").press("Home")
    player = residuals.locator(".widget-play button").first
    changed(page, residuals, player.click)
    image = residuals.locator("img[src^='blob:']")
    size = image.bounding_box()
    image.hover(position={"x": 0.13 * size["width"], "y": 0.3 * size["height"]})
    residuals.get_by_text("observed").wait_for()


def paint_solve_and_stop(page, sensors):
    """Adds a sensor by hand and takes it away, solves, and stops a long solve."""
    image = sensors.locator("img[src^='blob:']")
    size = image.bounding_box()
    middle = {"x": 0.13 * size["width"], "y": 0.3 * size["height"]}
    changed(page, sensors, lambda: image.click(position=middle))
    sensors.locator("select:has-text('remove')").select_option(index=1)
    changed(page, sensors, lambda: image.click(position=middle))
    solve = sensors.get_by_role("button", name="solve")
    changed(page, sensors, solve.click)

    for label in ("draws", "calls a draw"):
        changed(page, sensors, lambda at=label: slider(sensors, at).press("End"))
    solve.click()
    sensors.get_by_role("button", name="stop").click()
    sensors.get_by_text("stopped").wait_for()


def test_every_control_moves_its_picture_in_jupyterlab(folder, shots):
    with jupyterlab(folder) as address, page_of(address, folder) as page:
        page.locator(".jp-Notebook").wait_for()
        page.evaluate(HIDE_FILES)
        page.evaluate(RUN_ALL)
        for name, explorer in zip(NAMES, explorers(page), strict=True):
            photographed(explorer, shots / f"explorer_{name}.png")

        # Running the cells again replaces each explorer by its like.
        old = page.evaluate(PICTURES)
        page.evaluate(RUN_ALL)
        found = explorers(page, old)
        page.get_by_text("4 explorers live").wait_for()

        for name, explorer in zip(NAMES, found, strict=True):
            steps = "calls a draw" if name == "sensors" else "sampler steps"
            few = slider(explorer, steps)
            changed(page, explorer, lambda handle=few: handle.press("Home"))
            assert move_each_control(page, explorer) >= 6
        paint_solve_and_stop(page, found[-1])
        play_and_point(page, found[0])  # last: it goes on playing


def test_voila_shows_the_explorers_behind_a_token(folder):
    with voila(folder) as address:
        bare = address.partition("?")[0]
        with urllib.request.urlopen(bare, timeout=60) as answer:
            assert "/login" in answer.url
        with page_of(address, folder) as page:
            first = explorers(page)[0]
            problem = slider(first, "test problem")
            changed(page, first, lambda: problem.press("ArrowRight"))
            page.screenshot(path=folder / "voila.png")
