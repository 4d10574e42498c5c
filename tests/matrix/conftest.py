"""What tests of matrices share: the program, and a cache of references."""

import pytest
from support.ttrace_cli import ttrace_binary


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Names the program, and removes what is kept of layouts that fail with the rest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("kept")))
        patch.setenv("TTRACE", str(ttrace_binary()))
        yield


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")
