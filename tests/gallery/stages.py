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
    chunks: tuple[range, ...]  # numbers of layers in the whole model; one chunk or virtual stages

    @property
    def layers(self) -> list[int]:
        return [number for chunk in self.chunks for number in chunk]


def stage_of(config: Config, mesh: ProcessMesh) -> Stage:
    """Layers that are left over by a division go to the first stages."""
    index, count = mesh["pp"].index, config.pp
    first, last = index == 0, index == count - 1
    if config.vpp > 1:
        return Stage(first, last, _virtual(config.layers, config.vpp, count, index))
    size, more = divmod(config.layers, count)
    if bugs.active("P10"):
        more = 0
    begin = index * size + min(index, more)
    return Stage(first, last, (range(begin, begin + size + (index < more)),))


def _virtual(layers: int, chunks: int, stages: int, index: int) -> tuple[range, ...]:
    """The chunks of a stage. All stages have their first chunk before any has its second."""
    size = layers // (chunks * stages)
    step, begin = stages * size, index * size
    if bugs.active("G11"):
        step, begin = size, index * chunks * size
    starts = (begin + chunk * step for chunk in range(chunks))
    return tuple(range(start, start + size) for start in starts)


def canonical(name: str) -> str:
    """Name in the whole model of what is called `name` in a stage."""
    return _COPIES.get(name, name)
