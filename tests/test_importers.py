"""MATLAB files of public data become files of ours, or errors; so does the command."""

import numpy as np
import pytest
from public import SIZE, assert_holds, history, public, save_mat

from prisma_lib import data, evaluate, pdes
from prisma_lib.errors import DataError, PrismaError, RunDirError
from prisma_lib.importers import import_files

MATLAB = {
    "darcy": ("thresh_a_data", "thresh_p_data"),
    "poisson": ("f_data", "phi_data"),
    "helmholtz": ("f_data", "psi_data"),
}


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("name", MATLAB)
def test_steady_equations_of_diffusionpde(tmp_path, name, modern):
    pde, a, u = public(name)
    arrays = dict(zip(MATLAB[name], (a, u), strict=True))
    path = save_mat(tmp_path / "x.mat", arrays, modern)

    out = import_files("diffusionpde", [path], tmp_path / "x.h5", pde)

    assert_holds(out, pde, a, u)


@pytest.fixture(scope="module")
def flow():
    """Four trajectories of ten frames after the start, 0.1 apart."""
    pde = pdes.load("navier_stokes", size=SIZE)
    start = pde.draw(0, range(0, 40, 10)).double()
    later = pde.trajectory(start, 10).movedim(1, -1)
    return start[:, 0].numpy(), later.numpy()


def flow_file(path, flow, modern=False):
    t = np.linspace(0.1, 1.0, 10)[None]
    return save_mat(path, {"a": flow[0], "u": flow[1], "t": t}, modern)


@pytest.mark.parametrize("modern", [False, True])
def test_a_flow_of_diffusionpde_gives_all_neighbouring_frames(tmp_path, flow, modern):
    pde = pdes.load("navier_stokes", size=SIZE)
    path = flow_file(tmp_path / "ns.mat", flow, modern)
    frames = np.concatenate([flow[0][..., None], flow[1]], -1).transpose(0, 3, 1, 2)

    out = import_files("diffusionpde", [path], tmp_path / "ns.h5", pde)

    assert_holds(out, pde, frames[:, :-1], frames[:, 1:])
    found = data.load(out)
    assert len(found.a) == 40
    assert found.origins(pde) == [i for i in range(4) for _ in range(10)]
    last = evaluate.stored(out).part([9, 10, 39])
    assert last.origins == [0, 1, 3]


def test_a_flow_of_diffusionpde_gives_frames_with_the_three_that_follow(tmp_path, flow):
    pde = pdes.load("navier_stokes", size=SIZE, frames=3)
    path = flow_file(tmp_path / "ns.mat", flow)
    frames = np.concatenate([flow[0][..., None], flow[1]], -1).transpose(0, 3, 1, 2)
    later = np.stack([frames[:, k : k + 8] for k in (1, 2, 3)], 2)

    out = import_files("diffusionpde", [path], tmp_path / "ns.h5", pde)

    assert_holds(out, pde, frames[:, :8], later)


def test_a_flow_of_diffusionpde_over_its_whole_time(tmp_path, flow):
    pde = pdes.load("navier_stokes", size=SIZE, interval=1.0)
    path = flow_file(tmp_path / "ns.mat", flow)

    out = import_files("diffusionpde", [path], tmp_path / "ns.h5", pde)

    assert_holds(out, pde, flow[0], flow[1][..., -1])


def test_a_flow_with_other_times_is_refused_with_its_times(tmp_path, flow):
    pde = pdes.load("navier_stokes", size=SIZE, interval=0.03)
    path = flow_file(tmp_path / "ns.mat", flow)

    with pytest.raises(DataError, match=r"0\.1, 0\.2.*interval=0\.03"):
        import_files("diffusionpde", [path], tmp_path / "ns.h5", pde)


def test_a_flow_with_transposed_axes_is_refused(tmp_path, flow):
    pde = pdes.load("navier_stokes", size=SIZE)
    turned = flow[0].swapaxes(1, 2), flow[1].swapaxes(1, 2)
    path = flow_file(tmp_path / "ns.mat", turned)

    with pytest.raises(DataError, match=r"axes \(x, y\)"):
        import_files("diffusionpde", [path], tmp_path / "ns.h5", pde)


@pytest.mark.parametrize("modern", [False, True])
def test_burgers_of_diffusionpde_has_starts_without_time(tmp_path, modern):
    pde, a, u = history()
    arrays = {"input": a[:, 0], "output": u}
    path = save_mat(tmp_path / "b.mat", arrays, modern)

    out = import_files("diffusionpde", [path], tmp_path / "b.h5", pde)

    assert_holds(out, pde, a, u)


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a, u: {"f_data": a, "sol": u}, r"'sol': .*needs.*'phi_data'"),
        (lambda a, u: {"f_data": a, "phi_data": u[:4]}, r"\(4, 16, 16\)"),
        (
            lambda a, u: {"f_data": a.transpose(1, 2, 0), "phi_data": u},
            r"\(16, 16, 5\).*\(N, n, n\)",
        ),
        (lambda a, u: {"f_data": a[:, None], "phi_data": u[:, None]}, r"\(5, 1, 16"),
        (lambda a, u: {"f_data": u, "phi_data": a}, "a and u are swapped"),
        (lambda a, u: {"f_data": 2 * a, "phi_data": u}, "the units"),
        (lambda a, u: {"f_data": np.sign(a).astype(int), "phi_data": u}, "int64"),
        (lambda a, u: {"f_data": np.where(a > 1, np.nan, a), "phi_data": u}, None),
    ],
)
def test_what_is_not_of_the_layout_is_refused(tmp_path, change, message, modern):
    pde, a, u = public("poisson")
    a[2, 3, 4] = 1.5 if message is None else a[2, 3, 4]
    path = save_mat(tmp_path / "p.mat", change(a, u), modern)

    with pytest.raises(DataError, match=message or "a is not finite"):
        import_files("diffusionpde", [path], tmp_path / "p.h5", pde)

    assert [p.name for p in tmp_path.iterdir()] == ["p.mat"]


def test_the_data_of_another_wavenumber_are_refused(tmp_path):
    _, a, u = public("helmholtz", k=2.0)
    path = save_mat(tmp_path / "h.mat", {"f_data": a, "psi_data": u})

    with pytest.raises(DataError, match=r"helmholtz \{'k': 1\.0\}"):
        import_files("diffusionpde", [path], tmp_path / "h", pdes.load("helmholtz", 16))


@pytest.mark.parametrize(
    ("made", "asked"), [("diffusionpde", "nodes"), ("nodes", "diffusionpde")]
)
def test_cell_centres_and_nodes_are_not_taken_for_each_other(tmp_path, made, asked):
    _, a, u = public("darcy", recipe=made)
    path = save_mat(tmp_path / "d.mat", {"thresh_a_data": a, "thresh_p_data": u})
    wanted = pdes.load("darcy", size=SIZE, recipe=asked)

    with pytest.raises(DataError, match="no pairs of darcy"):
        import_files("diffusionpde", [path], tmp_path / "d", wanted)


@pytest.mark.parametrize("modern", [False, True])
def test_public_permeabilities_lie_on_cell_centres(tmp_path, modern, capsys):
    pde, a, u = public("darcy", recipe="diffusionpde")
    arrays = {"thresh_a_data": a, "thresh_p_data": u}
    path = save_mat(tmp_path / "d.mat", arrays, modern)
    out = tmp_path / "d.h5"
    words = ["import", "diffusionpde", str(path), "--out", str(out)]

    status = data.main([*words, "--pde", "darcy", "--size", "16"])

    assert status == 0, capsys.readouterr().err
    assert_holds(out, pde, a, u)


@pytest.fixture
def pair_of_files(tmp_path):
    """Two files of different Poisson problems, and the equation."""
    pde, a, u = public("poisson", 8)
    for name, rows in (("first", slice(0, 4)), ("second", slice(4, 8))):
        arrays = {"f_data": a[rows], "phi_data": u[rows]}
        save_mat(tmp_path / f"{name}.mat", arrays)
    return pde, tmp_path / "first.mat", tmp_path / "second.mat"


def test_files_that_share_a_source_overlap_whatever_its_name(tmp_path, pair_of_files):
    pde, first, second = pair_of_files
    renamed = tmp_path / "renamed.mat"
    renamed.write_bytes(first.read_bytes())
    both, one, other = (
        data.load(import_files("diffusionpde", files, tmp_path / name, pde))
        for files, name in (([first, second], "a"), ([renamed], "b"), ([second], "c"))
    )

    with pytest.raises(DataError, match=r"overlap.* range\(0, 4\) of first\.mat"):
        data.check_disjoint(both, one)
    data.check_disjoint(one, other)
    data.check_disjoint(one, data.load(data.make(tmp_path / "made", pde, 4)))
    assert both.numbers == range(8)


def test_attributes_name_every_source(tmp_path, pair_of_files):
    pde, *files = pair_of_files

    about = data.load(
        import_files("diffusionpde", files, tmp_path / "x", pde)
    ).attributes

    assert about["importer"] == "diffusionpde"
    assert about["source.name"] == ["first.mat", "second.mat"]
    assert about["source.each"] == [1, 1]
    assert [len(sha) for sha in about["source.sha256"]] == [64, 64]


def test_a_file_is_taken_once(tmp_path, pair_of_files):
    pde, first, _ = pair_of_files
    with pytest.raises(DataError, match="give each file once"):
        import_files("diffusionpde", [first, first], tmp_path / "x", pde)


@pytest.mark.parametrize(
    ("kind", "files", "name", "message"),
    [
        ("diffusionPDE", ["x.mat"], "poisson", "did you mean 'diffusionpde'"),
        ("diffusionpde", [], "poisson", "no files"),
        ("diffusionpde", ["x.mat"], "poisson", "no file x.mat"),
        ("diffusionpde", ["x.mat"], "eikonal", "unknown equation of DiffusionPDE"),
        ("merged", ["x.npy"], "eikonal", "unknown equation of DiffusionPDE"),
    ],
)
def test_impossible_imports_start_nothing(tmp_path, kind, files, name, message):
    with pytest.raises(PrismaError, match=message):
        import_files(kind, files, tmp_path / "x", pdes.load(name, 16), order="au")

    assert not list(tmp_path.iterdir())


def test_an_existing_file_is_kept(tmp_path, pair_of_files):
    pde, first, second = pair_of_files
    out = import_files("diffusionpde", [first], tmp_path / "x", pde)
    before = out.read_bytes()

    with pytest.raises(RunDirError, match="exists"):
        import_files("diffusionpde", [second], out, pde)

    assert out.read_bytes() == before


@pytest.mark.parametrize("keep", [0, 100, 0.5])
@pytest.mark.parametrize("modern", [False, True])
def test_truncated_matlab_files_are_refused(tmp_path, keep, modern):
    pde, a, u = public("poisson")
    path = save_mat(tmp_path / "p.mat", {"f_data": a, "phi_data": u}, modern)
    raw = path.read_bytes()
    path.write_bytes(raw[: keep if keep != 0.5 else len(raw) // 2])

    with pytest.raises(DataError, match=r"p\.mat"):
        import_files("diffusionpde", [path], tmp_path / "x", pde)

    assert [p.name for p in tmp_path.iterdir()] == ["p.mat"]


def test_the_command_imports(tmp_path, pair_of_files, capsys):
    _, *files = map(str, pair_of_files)
    out = str(tmp_path / "x.h5")
    words = ["import", "diffusionpde", *files[-2:], "--out", out]

    right = data.main([*words, "--pde", "poisson", "--size", "16"])
    wrong = data.main([*words, "--pde", "helmholtz", "--size", "16"])

    assert (right, wrong) == (0, 2)
    assert data.verify(out).num == 8
    assert "'psi_data'" in capsys.readouterr().err
