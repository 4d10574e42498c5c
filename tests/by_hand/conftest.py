"""The reference of the page's trainer, made once."""

import pytest

from by_hand.page import train, trainer


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    """The reference and a noise run."""
    folder = tmp_path_factory.mktemp("by_hand")
    runs = folder / "ref.h5", folder / "noise.h5"
    train(trainer(), runs[0])
    train(trainer(), runs[1], TTRACE_NOISE="1")
    return runs
