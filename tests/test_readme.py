"""What the README shows works as it stands there."""

import re
import runpy

import pytest
import torch

from prisma_lib.provenance import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_program_runs_and_gives_what_its_comments_say(tmp_path):
    (program,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    (tmp_path / "program.py").write_text(program)

    names = runpy.run_path(str(tmp_path / "program.py"))

    assert names["forward"].u.shape == (1, 4, 1, 32, 32)
    assert names["inverse"].a.shape == (16, 4, 1, 32, 32)
    error = (names["forward"].u[0] - names["u"]).norm() / names["u"].norm()
    assert error < 0.1
    assert torch.isfinite(names["inverse"].a.std(dim=0)).all()


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_a_link_leads_somewhere(target):
    assert target.startswith("https://arxiv.org/") or (ROOT / target).exists()


ROWS = re.findall(r"^\| \[(\d\d_\w+)\]\(.*?\) \| (.*?\?)", README, flags=re.M)


@pytest.mark.parametrize(("name", "question"), ROWS)
def test_a_notebook_asks_what_the_readme_says(name, question):
    text = (ROOT / "notebooks" / f"{name}.py").read_text(encoding="utf-8")

    (title,) = re.findall(r"^# # (.*)$", text, flags=re.M)
    assert title == question


@pytest.mark.parametrize("name", re.findall(r"^make (\w+)", README, flags=re.M))
def test_a_command_is_a_target_of_the_makefile(name):
    assert re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), flags=re.M)
