"""Answers that a cut run left behind are those that it would have given again."""

from dataclasses import replace

import pytest
import torch
from rivals import nine, untrained
from safetensors.torch import save_file

from prisma_lib import benchmarks, shelf
from prisma_lib.shelf import Shelf

CELLS = [("forward", "full"), ("inverse", "full")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Holds tiny networks of noise."""
    return tmp_path_factory.mktemp("weights")


@pytest.fixture
def contest(quick, folder, tmp_path):
    """PRISMA against the guided FunDPS, which answers eight of nine problems."""
    problems = nine(quick, "poisson")
    untrained("fundps", problems.pde, folder)
    model = untrained("prisma", problems.pde, folder)
    settings = {"fundps": {"steps": 2}}
    rivals, _ = benchmarks.found(["fundps"], problems.pde, settings, folder)
    kept = Shelf(tmp_path / "answers")
    return benchmarks.Contest(
        model, problems, rivals, steps=(2,), samples=2, scale="test", shelf=kept
    )


@pytest.fixture
def asked(monkeypatch):
    """Counts how often a solver that learned is asked."""
    counted = []
    for name in ("answered", "answers_of"):
        ask = getattr(benchmarks, name)

        def count(*given, ask=ask, name=name, **more):
            if more.get("method") == "PRISMA" or name == "answers_of":
                counted.append(name)
            return ask(*given, **more)

        monkeypatch.setattr(benchmarks, name, count)
    return counted


def test_a_run_that_is_cut_goes_on_with_the_answers_that_it_had(contest, asked):
    first = contest.answers(CELLS)
    assert sorted(asked) == ["answered", "answered", "answers_of"]

    (lost, *_) = contest.shelf.folder.glob("*.safetensors")
    lost.unlink()
    again = contest.answers(CELLS)

    assert len(asked) == 4
    learned = [x for x in first if x.method in ("PRISMA", "FunDPS")]
    assert len(learned) == 6  # two of FunDPS, two of PRISMA on all and on eight
    # Clocks differ, of the answer that was made again and of anchors.
    clocks = ("seconds_per_sample", "peak_mb")
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one.a, other.a)
        assert torch.equal(one.u, other.u)
        assert one.problems.numbers == other.problems.numbers
        rows = zip(one.rows(), other.rows(), strict=True)
        assert all(
            {k: v for k, v in mine.items() if k not in clocks}
            == {k: v for k, v in same.items() if k not in clocks}
            for mine, same in rows
        )


def test_what_decides_an_answer_is_asked_again_when_it_changes(
    contest, asked, monkeypatch
):
    def ask(changed):
        before = len(asked)
        changed.answers(CELLS[:1])
        return len(asked) - before

    assert ask(contest) == 2
    assert ask(contest) == 0
    assert ask(replace(contest, steps=(3,))) == 1
    assert ask(replace(contest, samples=1)) == 1
    assert ask(replace(contest, problems=contest.problems.first(8))) == 2
    sparser = contest.problems.hiding(rate=0.5)
    assert ask(replace(contest, problems=sparser)) == 2
    others = replace(contest.problems, u=1.01 * contest.problems.u)
    assert ask(replace(contest, problems=others)) == 2
    with torch.no_grad():
        next(contest.model.parameters()).add_(1e-3)
    assert ask(contest) == 1
    monkeypatch.setattr(shelf.runs, "code", lambda: "another")
    assert ask(contest) == 2


def test_a_damaged_answer_is_asked_for_again_and_a_done_run_leaves_none(contest, asked):
    contest.answers(CELLS[:1])
    files = sorted(contest.shelf.folder.iterdir())
    files[0].write_bytes(b"half")
    save_file({"x": torch.zeros(1)}, files[1])

    contest.answers(CELLS[:1])

    assert len(asked) == 4
    contest.shelf.clear()
    assert not contest.shelf.folder.exists()
    contest.shelf.clear()


def test_without_a_folder_nothing_is_kept(contest, asked, tmp_path):
    without = replace(contest, shelf=Shelf())

    without.answers(CELLS[:1])
    without.answers(CELLS[:1])
    without.shelf.clear()

    assert len(asked) == 4
    assert not list(tmp_path.iterdir())
