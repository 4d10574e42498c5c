"""A mixture of experts in the place of the MLP."""

from torch import Tensor, nn

from gallery.config import Config
from gallery.experts import Experts, Router
from gallery.parallel import ProcessMesh
from gallery.shared_tokens import LocalExperts, ShardedExperts


class Moe(nn.Module):
    """router -> experts, from hidden layout to hidden layout."""

    def __init__(self, config: Config, mesh: ProcessMesh) -> None:
        super().__init__()
        self.router = Router(config, mesh)
        kind: type[nn.Module] = Experts
        if config.expert_tp:
            kind = ShardedExperts
        elif config.tp > 1 and not config.sp:
            kind = LocalExperts
        self.experts = kind(config, mesh)

    def forward(self, x: Tensor) -> Tensor:
        return self.experts(x, *self.router(x))
