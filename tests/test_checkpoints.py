"""Models on disk: what is written comes back, what is damaged is refused."""

import hashlib
import json
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file

from prisma_lib import checkpoints, pdes
from prisma_lib.errors import CheckpointError, ConfigError
from prisma_lib.model import ModelConfig, Prisma
from prisma_lib.pdes.base import Statistics


@pytest.fixture
def model():
    torch.manual_seed(0)
    pde = pdes.load("poisson", size=16)
    statistics = Statistics((0.0, 1e-5), (0.29, 4e-3), 1e-4)
    return Prisma(pde, ModelConfig.preset("tiny"), statistics).eval()


@pytest.fixture
def folder(model, tmp_path):
    checkpoints.save(tmp_path / "model", model, {"name": "trial"}, torch.float32)
    return tmp_path / "model"


def rewrite(folder, weights):
    """Stores other weights under a card that vouches for them."""
    save_file(weights, folder / "model.safetensors")
    content = (folder / "model.safetensors").read_bytes()
    card = json.loads((folder / "card.json").read_text())
    card["weights"]["bytes"] = len(content)
    card["weights"]["sha256"] = hashlib.sha256(content).hexdigest()
    (folder / "card.json").write_text(json.dumps(card))


def test_a_model_comes_back_with_its_outputs(model, folder):
    x = torch.randn(2, 2, 16, 16)
    inputs = (x, torch.ones(2), torch.zeros_like(x), torch.zeros_like(x))

    first, second = checkpoints.load(folder), checkpoints.load(folder)

    with torch.no_grad():
        torch.testing.assert_close(first(*inputs), model(*inputs), rtol=0, atol=0)
    torch.testing.assert_close(second(*inputs), first(*inputs), rtol=0, atol=0)
    assert first.statistics == model.statistics
    assert not first.training


def test_half_precision_weights_change_outputs_little(model, tmp_path):
    x = torch.randn(2, 2, 16, 16)
    inputs = (x, torch.ones(2), torch.zeros_like(x), torch.zeros_like(x))
    torch.nn.init.normal_(model.backbone.project.weight)
    checkpoints.save(tmp_path, model)

    with torch.no_grad():
        stored, exact = checkpoints.load(tmp_path)(*inputs), model(*inputs)

    assert (stored - exact).norm() < 5e-3 * exact.norm()


def test_card_says_what_the_model_is(folder):
    card = checkpoints.read_card(folder)

    assert card["pde"]["name"] == "poisson"
    assert card["name"] == "trial"
    assert card["statistics"]["std"] == [0.29, 0.004]


def test_another_equation_is_refused(folder):
    with pytest.raises(CheckpointError, match="trained for poisson, asked for darcy"):
        checkpoints.load(folder, pde="darcy")


def test_unknown_name_lists_what_ships():
    with pytest.raises(CheckpointError, match="no model 'darcy-33'"):
        checkpoints.load("darcy-33")


@pytest.mark.parametrize("where", [0, 8, 100, -1])
def test_a_flipped_byte_is_refused(folder, where):
    path = folder / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[where] ^= 0x10
    path.write_bytes(content)

    with pytest.raises(CheckpointError, match="corrupt: checksum mismatch"):
        checkpoints.load(folder)


@pytest.mark.parametrize("length", [0, 10, 5000])
def test_a_truncated_file_is_refused(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])

    with pytest.raises(CheckpointError, match=r"corrupt: .* bytes, its card says"):
        checkpoints.load(folder)


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}"])
def test_a_damaged_card_is_refused(folder, text):
    (folder / "card.json").write_text(text)

    with pytest.raises(CheckpointError, match=r"corrupt: .* no model card"):
        checkpoints.load(folder)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("weights", None, "weights=None: bytes, sha256 and dtype"),
        ("weights", {"sha256": "0", "dtype": "float16"}, "bytes, sha256 and dtype"),
        ("weights", {"bytes": 1, "sha256": "0", "dtype": "floaty"}, "dtype 'floaty'"),
        ("weights", {"bytes": 1, "sha256": "0", "dtype": "nn"}, "dtype 'nn'"),
        ("weights", {"bytes": 1, "sha256": "0", "dtype": 16}, "dtype 16"),
        ("model", [], "the card makes no model"),
        ("pde", [], "the card makes no model"),
    ],
)
def test_a_card_without_what_a_model_needs_is_refused(
    untyped, folder, key, value, words
):
    card = checkpoints.read_card(folder)
    (folder / "card.json").write_text(json.dumps(card | {key: value}))

    with pytest.raises(CheckpointError, match=words):
        checkpoints.load(folder)


@pytest.mark.parametrize("std", [[0.29], [0.29, 0.0], [0.29, float("inf")]])
def test_a_card_whose_statistics_normalise_nothing_is_refused(folder, std):
    card = checkpoints.read_card(folder)
    card["statistics"]["std"] = std
    (folder / "card.json").write_text(json.dumps(card))

    with pytest.raises(CheckpointError, match=r"the card makes no model: card: "):
        checkpoints.load(folder)


def test_a_newer_format_is_refused(folder):
    card = checkpoints.read_card(folder) | {"format": 99}
    checkpoints.write_card(folder, card)

    with pytest.raises(CheckpointError, match="format 99, this library reads 1"):
        checkpoints.load(folder)


def test_weights_that_are_not_finite_are_refused(folder):
    weights = load_file(folder / "model.safetensors")
    name = sorted(weights)[3]
    weights[name].view(-1)[0] = torch.nan
    rewrite(folder, weights)

    with pytest.raises(CheckpointError, match=f"{name} has NaN"):
        checkpoints.load(folder)


def test_weights_of_another_architecture_are_refused(folder):
    weights = load_file(folder / "model.safetensors")
    weights.pop("backbone.norm.weight")
    rewrite(folder, weights)

    with pytest.raises(CheckpointError, match=r"missing \['backbone.norm.weight'\]"):
        checkpoints.load(folder)


def test_weights_of_another_type_are_refused(folder):
    weights = load_file(folder / "model.safetensors")
    rewrite(folder, {k: v.double() for k, v in weights.items()})

    with pytest.raises(
        CheckpointError, match=r"is torch.float64, torch.float32 is needed"
    ):
        checkpoints.load(folder)


class Bomb:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (open, (str(self.target), "w"))


def test_a_pickle_is_refused_and_runs_nothing(tmp_path):
    victim = tmp_path / "executed"
    file = tmp_path / "model.pkl"
    file.write_bytes(pickle.dumps(Bomb(victim)))

    with pytest.raises(CheckpointError, match=r"Pickles .* are never loaded"):
        checkpoints.load(file)

    assert not victim.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_a_missing_gpu_is_an_environment_error(folder):
    with pytest.raises(ConfigError, match="use device: cpu or auto") as caught:
        checkpoints.load(folder, device="cuda")

    assert caught.value.exit_code == 4


def test_auto_picks_a_device_that_exists(folder):
    model = checkpoints.load(folder, device="auto")

    assert model.mean.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
