"""A folder is one process's at a time, and free when that has died."""

import subprocess
import sys

from prisma_lib import execution, locks


def test_lock_of_a_killed_process_is_free(root):
    folder = root / "outputs" / "tiny"
    call = "import os; from pathlib import Path; from prisma_lib import locks\n"
    call += f"with locks.locked(Path({str(folder)!r})): os.kill(os.getpid(), 9)"

    killed = subprocess.run([sys.executable, "-c", call], check=False)

    assert killed.returncode == -9
    assert not locks.held(folder)
    with locks.locked(folder):
        assert locks.held(folder)


def test_process_that_makes_the_same_run_is_waited_for(root):
    source, folder = root / "notebooks" / "10_tiny.py", root / "outputs" / "tiny" / "x"
    holds = "import sys, time; from pathlib import Path\n"
    holds += "from prisma_lib import execution, locks\n"
    holds += "source, folder = map(Path, sys.argv[1:])\n"
    holds += "with locks.locked(folder):\n"
    holds += "    run = execution.begun(source, {}, 'running').save(folder)\n"
    holds += "    print('holds', flush=True); time.sleep(1)\n"
    holds += "    run.ended('done', '').save(folder)\n"
    command = [sys.executable, "-c", holds, str(source), str(folder)]
    other = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "holds\n"

    run = execution.execute(source, folder, {}, keep=True)

    other.communicate()
    assert (run.status, run.pid) == ("done", other.pid)
    assert not (folder / "notebook.ipynb").exists()
