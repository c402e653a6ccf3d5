"""The explorers in a real browser: JupyterLab and Voilà, driven as a person would.

Needs the system's Chromium and the extra `browser`. SCREENSHOTS names a folder that
keeps the pictures.
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

import pytest

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
TOKEN = "a-token-of-this-test"
PATIENCE = 240_000  # milliseconds; a busy machine starts a kernel slowly

RUN_ALL = """async () => {
  const app = window.jupyterapp;
  await app.restored;
  const context = app.shell.currentWidget.sessionContext;
  await context.ready;
  await context.session.kernel.info;
  await app.commands.execute('notebook:run-all-cells');
}"""
PICTURES = """() => [...document.querySelectorAll('img')]
  .filter(i => i.src.startsWith('blob:')).length"""

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
    url = f"http://127.0.0.1:{port}"
    with serving(command, port, folder):
        yield f"{url}/?token={TOKEN}"


@contextlib.contextmanager
def page_of(address, errors):
    with play.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(address)
        yield page
        browser.close()


@pytest.fixture
def shots(tmp_path):
    folder = Path(os.environ.get("SCREENSHOTS", tmp_path / "screenshots"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def folder(tmp_path):
    source = ROOT / "notebooks" / "60_explorer.ipynb"
    (tmp_path / "explorer.ipynb").write_text(source.read_text("utf-8"))
    return tmp_path


def explorers(page):
    """Returns the four explorers of the page, once all of them show a picture."""
    page.wait_for_function(f"({PICTURES})() >= 4")
    found = page.locator(".widget-vbox:has(img[src^='blob:'])")
    assert found.count() == 4
    return [found.nth(i) for i in range(4)]


def changed(page, explorer, act):
    """Does something and waits until the explorer shows another picture."""
    image = explorer.locator("img[src^='blob:']").element_handle()
    before = image.get_attribute("src")
    act()
    page.wait_for_function(
        "([image, old]) => image.src !== old", arg=[image, before], timeout=PATIENCE
    )


def move_each_control(page, explorer):
    """Moves every slider by a key and every list by one entry; returns their number."""
    explorer.scroll_into_view_if_needed()
    sliders = explorer.locator(".widget-slider:not(:has([disabled])) .noUi-handle")
    lists = explorer.locator("select:not([disabled])")
    moved = 0
    for i in range(sliders.count()):
        handle = sliders.nth(i)
        ends = [handle.get_attribute(f"aria-value{end}") for end in ("now", "max")]
        key = "ArrowLeft" if float(ends[0]) == float(ends[1]) else "ArrowRight"
        with contextlib.suppress(AssertionError):
            handle.focus()
        changed(page, explorer, lambda h=handle, k=key: h.press(k))
        moved += 1
    for i in range(lists.count()):
        options = lists.nth(i).locator("option").all_text_contents()
        if len(options) > 1 and "add sensors" not in options:  # a brush: no picture
            now = lists.nth(i).evaluate("list => list.selectedIndex")
            other = (now + 1) % len(options)
            changed(
                page, explorer, lambda n=i, o=other: lists.nth(n).select_option(index=o)
            )
            moved += 1
    return moved


def test_every_control_moves_its_picture_in_jupyterlab(folder, shots):
    errors = []
    with jupyterlab(folder) as address, page_of(address, errors) as page:
        page.locator(".jp-Notebook").wait_for()
        page.evaluate(RUN_ALL)
        found = explorers(page)
        for i, explorer in enumerate(found):
            assert move_each_control(page, explorer) >= 6
            explorer.screenshot(path=str(shots / f"explorer-{i}.png"))

        sensors = found[-1]
        image = sensors.locator("img[src^='blob:']")
        size = image.bounding_box()
        middle = {"x": 0.13 * size["width"], "y": 0.3 * size["height"]}
        changed(page, sensors, lambda: image.click(position=middle))
        solve = sensors.get_by_role("button", name="solve")
        changed(page, sensors, solve.click)
        sensors.screenshot(path=str(shots / "sensors-solved.png"))
        page.screenshot(path=str(shots / "jupyterlab.png"))
    assert not errors, errors


def test_voila_shows_the_explorers_behind_a_token(folder, shots):
    errors = []
    with voila(folder) as address:
        bare = address.partition("?")[0]
        with urllib.request.urlopen(bare, timeout=60) as answer:
            assert "/login" in answer.url
        with page_of(address, errors) as page:
            first = explorers(page)[0]
            slider = first.locator(".widget-slider .noUi-handle").first
            slider.focus()
            changed(page, first, lambda: slider.press("ArrowRight"))
            page.screenshot(path=str(shots / "voila.png"))
    assert not errors, errors
