"""What torch's settings say of TF32."""

import pytest
import torch

from ttrace_torch.base import narrow_products


@pytest.fixture(autouse=True)
def on_ampere(monkeypatch):
    """A GPU that has TF32, and settings that a test may change."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (8, 0))
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    before = torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision
    yield
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision = before


def found():
    return narrow_products.narrow_products()


def test_by_default_convolutions_take_it():
    assert found() == {"convolution": "tf32"}


def test_the_products_of_recurrent_layers_take_it_by_a_setting_of_their_own(monkeypatch):
    everywhere = {"matmul": "tf32", "convolution": "tf32"}
    assert narrow_products.narrow_products(recurs=True) == everywhere
    monkeypatch.setattr(torch.backends.cudnn.rnn, "fp32_precision", "ieee")
    assert narrow_products.narrow_products(recurs=True) == {"convolution": "tf32"}


def test_settings_of_today_and_of_before_count():
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    assert found() == {}
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert found() == {"matmul": "tf32"}


def test_older_settings_count():
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = True
    assert found() == {"matmul": "tf32"}
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cuda.matmul.allow_tf32 = False
    assert found() == {"convolution": "tf32"}


def test_settings_of_both_ages_that_contradict_each_other_end_nothing():
    torch.backends.cudnn.conv.fp32_precision = "none"
    assert found() == {}


def test_what_cannot_round_does_not(monkeypatch):
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert found() == {}
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (7, 5))
    assert found() == {}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert found() == {}
