"""Two well-known networks and three kinds of machines, as the cost model sees them. Speeds are assumptions."""

from __future__ import annotations

from dataclasses import dataclass

from _scale_model import Shape, size
from _scale_times import Link, Load

GB = 1e9
Layer = tuple[Shape, float]  # shape of a parameter, and how many multiplications it takes part in per example


def resnet50() -> list[Layer]:
    """List the parameters of a ResNet-50 for 1,000 classes and pictures of 224 × 224."""
    found: list[Layer] = []

    def conv(wide: int, narrow: int, kernel: int, side: int) -> None:
        found.append(((wide, narrow, kernel, kernel), wide * narrow * kernel**2 * side**2))
        found.extend([((wide,), 0.0), ((wide,), 0.0)])  # of BatchNorm

    conv(64, 3, 7, 112)
    before = 64
    for stage, (width, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        side = 56 >> stage
        for block in range(blocks):
            above = 2 * side if stage and block == 0 else side
            conv(width, before, 1, above)
            conv(width, width, 3, side)
            conv(4 * width, width, 1, side)
            if block == 0:
                conv(4 * width, before, 1, side)
            before = 4 * width
    return [*found, ((1000, before), 1000 * before), ((1000,), 0.0)]


def vit_b16() -> list[Layer]:
    """List the parameters of a ViT-B/16 for 1,000 classes and pictures of 224 × 224."""
    width, tokens = 768, 197
    found: list[Layer] = [((1, 1, width), 0.0), ((1, tokens, width), 0.0)]

    def linear(wide: int, narrow: int, rows: int = tokens) -> None:
        found.extend([((wide, narrow), rows * wide * narrow), ((wide,), 0.0)])

    linear(width, 3 * 16 * 16)
    for _ in range(12):
        found.extend([((width,), 0.0), ((width,), 0.0)])
        linear(3 * width, width)
        linear(width, width)
        found.extend([((width,), 0.0), ((width,), 0.0)])
        linear(4 * width, width)
        linear(width, 4 * width)
    found.extend([((width,), 0.0), ((width,), 0.0)])
    linear(1000, width, 1)
    return found


@dataclass(frozen=True)
class Network:
    """A network on a GPU.

    Attributes:
        layers: Its parameters.
        speed: Examples per second that one GPU trains with SGD; an assumption.
    """

    layers: list[Layer]
    speed: float

    @property
    def n_bytes(self) -> int:
        """Bytes of all parameters."""
        return sum(size(shape) for shape, _ in self.layers)

    def load(self, batch: int) -> Load:
        """Return what a GPU does with so many examples: a third of the time forward, two thirds backward."""
        seconds = batch / self.speed
        sizes, work = zip(*((size(shape), flops) for shape, flops in self.layers), strict=True)
        return Load(sizes, seconds / 3, 2 * seconds / 3, work)


@dataclass(frozen=True)
class Machines:
    """Machines of eight GPUs each, with a network between them.

    Attributes:
        inside: α and β between the GPUs of one machine.
        between: α and β between machines, where a ring enters and leaves each of them once per card.
    """

    inside: tuple[float, float]
    between: tuple[float, float]

    def link(self, n: int, tree: bool = True) -> Link:
        """Return the slowest part of a ring or tree through so many GPUs."""
        return Link(*(self.inside if n <= 8 else self.between), tree)


NETWORKS = {"ResNet-50": Network(resnet50(), 2500.0), "ViT-B/16": Network(vit_b16(), 1100.0)}
MACHINES = {
    "NVLink, 8 × 200 Gb/s": Machines((3e-6, 200 * GB), (6e-6, 160 * GB)),
    "NVLink, 100 Gb/s": Machines((3e-6, 200 * GB), (30e-6, 10 * GB)),
    "PCIe, 25 Gb/s": Machines((10e-6, 12 * GB), (30e-6, 2.5 * GB)),
}
