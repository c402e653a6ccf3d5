"""Devices by name: what is not there is an error of the environment."""

import pytest
import torch

from prisma_lib.devices import describe, resolve, spread
from prisma_lib.errors import ConfigError

no_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="needs no CUDA")


@no_cuda
@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_a_gpu_that_is_not_there_is_refused_with_the_way_out(name):
    message = "CUDA is not available here; use device: cpu or auto"

    with pytest.raises(ConfigError, match=message) as caught:
        resolve(name)

    assert caught.value.exit_code == 4


@no_cuda
def test_auto_falls_back_to_the_cpu_and_records_say_which():
    assert resolve("auto") == torch.device("cpu")
    assert "thread" in describe(resolve("auto"))


def test_apple_gpus_are_refused_until_their_transforms_are_tested():
    with pytest.raises(ConfigError, match=r"Fourier .* use device: cpu") as caught:
        resolve("mps")

    assert caught.value.exit_code == 4


@pytest.mark.usefixtures("untyped")
@pytest.mark.parametrize("name", ["gpu", "", "CUDA", None, 0])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(ConfigError, match="use auto, cpu or cuda"):
        resolve(name)


def test_pieces_of_work_side_by_side_come_back_in_order_with_one_thread_each():
    def work(number):
        x = torch.ones(3, requires_grad=True) * number
        return number, torch.get_num_threads(), x.requires_grad

    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = spread(work, range(5), torch.device("cpu"))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)

    assert found == [(number, 1, False) for number in range(5)]


def test_an_error_in_a_piece_of_work_is_raised():
    def work(number):
        return 1 / number

    with pytest.raises(ZeroDivisionError):
        spread(work, [1, 0], torch.device("cpu"))
