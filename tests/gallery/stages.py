"""Which part of the model a pipeline stage holds, and what the parts are called in the whole."""

from dataclasses import dataclass

from gallery import bugs
from gallery.config import Config
from gallery.parallel import ProcessMesh

# The head multiplies with the word embedding's weight. Apart from the embedding it has a copy.
_COPIES = {"head.weight": "embedding.word.weight"}


@dataclass(frozen=True)
class Stage:
    """The embedding is on the first stage, final norm, head and loss on the last one."""

    first: bool
    last: bool
    layers: range  # numbers in the whole model


def stage_of(config: Config, mesh: ProcessMesh) -> Stage:
    """Layers that are left over by a division go to the first stages."""
    index, count = mesh["pp"].index, config.pp
    size, more = divmod(config.layers, count)
    if bugs.active("P10"):
        more = 0
    begin = index * size + min(index, more)
    layers = range(begin, begin + size + (index < more))
    return Stage(first=index == 0, last=index == count - 1, layers=layers)


def canonical(name: str) -> str:
    """Name in the whole model of what is called `name` in a stage."""
    return _COPIES.get(name, name)
