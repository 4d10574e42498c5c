"""Convolutional networks of other kernels: each layer rounds anew, in another way than the
reference's. Noise runs take other kernels too, and without them nobody is accused."""

import multiprocessing

import pytest
import torch
from answers import compared
from support.long_cases import chosen
from torch import nn

import ttrace_torch as tt

CLASSES, IMAGES, SIDE, WIDTH, BLOCKS = 10, 4, 32, 32, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        # The gradient of a bias before a batch norm is zero but for rounding.
        self.squeeze = nn.Conv2d(WIDTH, WIDTH, 1)
        self.norm1 = nn.BatchNorm2d(WIDTH)
        self.mix = nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(WIDTH)
        self.relu = nn.ReLU()

    def forward(self, x):
        inner = self.relu(self.norm1(self.squeeze(x)))
        return self.relu(self.norm2(self.mix(inner)) + x)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, WIDTH, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(BLOCKS)])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, x):
        x = torch.relu(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


def trained(path, *, onednn=True, last=False, threads=1, seed=None, plant=lambda network: None):
    torch.manual_seed(0)
    network = Network()
    images = torch.randn(IMAGES, 3, SIDE, SIDE)
    if last:
        network = network.to(memory_format=torch.channels_last)
        images = images.contiguous(memory_format=torch.channels_last)
    plant(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    perturb = None if seed is None else tt.Perturb(seed)
    tracer = tt.trace(network, optimizer, out=path, perturb=perturb)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.backends.mkldnn.set_flags(onednn)
    with tracer.step(0):
        tracer.loss(nn.functional.cross_entropy(network(images), torch.arange(IMAGES))).backward()
        optimizer.step()
    torch.set_num_threads(before)
    torch.backends.mkldnn.set_flags(True)
    tracer.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    trained(folder / "reference.h5")
    trained(folder / "noise.h5", seed=1)
    return folder


KERNELS = {
    "without oneDNN": {"onednn": False},
    "channels last": {"last": True, "threads": 3},
    "both": {"onednn": False, "last": True, "threads": 2},
}
QUICK = ["without oneDNN", "channels last"]


@pytest.mark.parametrize("kernels", chosen("other kernels", QUICK, ["both"]))
def test_other_kernels_match_a_noise_run_and_without_one_accuse_nobody(folder, kernels):
    trained(folder / "run.h5", **KERNELS[kernels])
    answer = compared(folder, noise=("noise.h5",))
    assert answer.code == 0, answer.line
    answer = compared(folder)
    assert answer.code in (0, 3), answer.line
    assert answer.code == 0 or "rounding of convolutions" in answer.line


def scaled(by, name):
    def plant(network):
        network.get_parameter(name).register_hook(lambda gradient: gradient * by)

    return plant


def stale_epsilon(network):
    network.blocks[3].norm1.eps = 1e-3


def lost_centre(network):
    weight = network.blocks[3].norm1.weight
    shift = weight.detach().mean() / 100
    network.blocks[3].squeeze.bias.register_hook(lambda gradient: gradient + shift)


FAULTS = {
    "bias": (lost_centre, "param_grad blocks.3.squeeze.bias"),
    "gradient": (scaled(1.05, "blocks.2.norm1.weight"), "param_grad blocks.2.norm1.weight"),
    "epsilon": (stale_epsilon, "output blocks.3.norm1"),
}


@pytest.mark.parametrize("noise", [("noise.h5",), ()], ids=["noise", "none"])
@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found_beside_other_kernels(folder, fault, noise):
    plant, first = FAULTS[fault]
    trained(folder / "run.h5", onednn=False, plant=plant)
    answer = compared(folder, noise=noise)
    assert answer.code == 1, answer.line
    assert answer.found[0] == first


def test_a_noise_run_leaves_the_job_as_it_was(folder):
    def settings():
        backends = torch.backends
        return backends.mkldnn.enabled, backends.cudnn.deterministic, torch.get_num_threads()

    before = settings()
    trained(folder / "again.h5", seed=2)
    assert settings() == before


def test_a_noise_run_takes_the_other_of_deterministic_kernels_and_others(folder):
    """The deterministic kernels of cuDNN add up in another order, and are off by more."""
    taken = []
    for deterministic in (False, True):
        with torch.backends.cudnn.flags(deterministic=deterministic):

            def noted(model):
                model.register_forward_hook(
                    lambda *_: taken.append(torch.backends.cudnn.deterministic)
                )

            trained(folder / "deterministic.h5", seed=3, plant=noted)
    assert taken == [True, False]


def trains_in_a_fork(path):
    trained(path, seed=1)


def test_a_noise_run_of_a_forked_process_ends(folder):
    """torch has used two threads in its parent."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.randn(512, 512) @ torch.randn(512, 512)
    torch.set_num_threads(before)
    child = multiprocessing.get_context("fork").Process(
        target=trains_in_a_fork, args=(folder / "forked.h5",)
    )
    child.start()
    child.join(60)
    ended = child.exitcode
    child.kill()
    assert ended == 0
