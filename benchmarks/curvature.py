"""What a top eigenvalue costs, in gradients, beside the ways of other tools, and what working layer by layer gains.

    python benchmarks/curvature.py                            all parts (some minutes on one core)
    python benchmarks/curvature.py --parts layerwise          one of them: cold, probe, bias, resnet, layerwise

Everything runs in one process on one thread, contenders interleaved with gradients: a cost is the contender's seconds
over the median of the gradients timed right before and after it, both in processor time, so that a busy machine does
not count. Absolute seconds mean nothing here. Contenders, each in the way in which it is best: ``curvlinops`` with
scipy's ``eigsh``, eight Lanczos vectors and the gradient as the first; ``PyHessian``, at its own tolerance; both if
installed. Written out here, and so named: power iteration on a cached gradient graph, as PyHessian does it, to 1e-4;
and ``eigsh`` at its default tolerance on products that record the gradient anew, as the edge-of-stability code does it.

``layerwise`` follows the default network on the embedded clothes, with the trackers' own numbers of examples: once as
it is, and once with a hook that does nothing, so that it is differentiated like any other network.

Images of the other parts come from ``../shared/data/cifar10.npz`` beside the repository where that exists, else they
are Gaussian.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor, nn
from torch.nn import functional as F

from surefoot.curvature import GaussNewton, Hessian, Sharpness, batch_sharpness, jacobian_norms, lanczos
from surefoot.curvature.gauss_newton import fastest_form
from surefoot.curvature.objective import Weights
from surefoot.data.fashion import fashion
from surefoot.models.mlp import mlp as default_mlp

try:
    from curvlinops import GGNLinearOperator, HessianLinearOperator
except ImportError:
    GGNLinearOperator = HessianLinearOperator = None
try:
    pyhessian = importlib.import_module("pyhessian.hessian")
except ImportError:
    pyhessian = None

Contender = Callable[[], tuple[float, int]]  # value, products
IMAGES = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar10.npz"


def images(n: int) -> tuple[Tensor, Tensor]:
    """Load ``n`` standardised 3×32×32 images, or make some up."""
    if IMAGES.exists():
        with np.load(IMAGES) as arrays:
            x = torch.tensor(arrays["x_train"][:n].transpose(0, 3, 1, 2) / 255.0, dtype=torch.float32).contiguous()
            y = torch.tensor(arrays["y_train"][:n].astype(np.int64))
        return (x - x.mean(0)) / x.std(0), y
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(10, (n,), generator=generator)
    centres = torch.randn(10, 3, 32, 32, generator=generator)
    return centres[y] + 3 * torch.randn(n, 3, 32, 32, generator=generator), y


class Block(nn.Module):
    """Two convolutions with BatchNorm and a shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Add the body's output to the input."""
        return (x + self.body(x)).relu()


def small_resnet() -> nn.Module:
    """Build a ResNet of three blocks, width 16, on 16×16 maps."""
    stem = nn.Sequential(nn.Conv2d(3, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    return nn.Sequential(
        stem, Block(16), Block(16), Block(16), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)
    )


def mlp() -> nn.Module:
    """Build the network of the edge-of-stability papers: 3072-200-200-10, tanh."""
    layers = [nn.Linear(3072, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh(), nn.Linear(200, 10)]
    return nn.Sequential(nn.Flatten(), *layers)


class Bench:
    """A model in training, its data, and the clock that counts in gradients."""

    def __init__(self, model: nn.Module, n: int, lr: float) -> None:
        self.model, (self.x, self.y) = model, images(n)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.generator = torch.Generator().manual_seed(1)

    def train(self, steps: int, batch: int = 128) -> None:
        """Take SGD steps."""
        self.model.train()
        for _ in range(steps):
            rows = torch.randint(len(self.y), (batch,), generator=self.generator)
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(self.x[rows]), self.y[rows]).backward()
            self.optimizer.step()
        self.model.eval()

    def gradient_seconds(self) -> float:
        """Time one gradient of the mean loss over all examples."""
        start = time.process_time()
        torch.autograd.grad(F.cross_entropy(self.model(self.x), self.y), list(self.model.parameters()))
        return time.process_time() - start

    def cost(self, contender: Contender) -> tuple[float, int, float]:
        """Run a contender: value, products, cost in gradients."""
        around = [self.gradient_seconds() for _ in range(2)]
        start = time.process_time()
        value, products = contender()
        seconds = time.process_time() - start
        around += [self.gradient_seconds() for _ in range(2)]
        return value, products, seconds / statistics.median(around)

    def exact(self, kind: str) -> float:
        """Find the eigenvalue to 1e-5: single precision knows no better."""
        operator = (GaussNewton if kind == "gn" else Hessian)(self.model, self.x, self.y)
        found = lanczos(
            operator, tol=1e-6, generator=torch.Generator().manual_seed(2), min_products=16, max_products=40
        )
        return found.values[0].item()

    def ours(self, follow: Sharpness) -> Contender:
        """Measure with this library."""

        def run() -> tuple[float, int]:
            found = follow.measure(self.model, self.x, self.y)
            return found.value, found.n_products

        return run

    def curvlinops(self, kind: str) -> Contender:
        """Take curvlinops' operator and scipy's eigsh to a tolerance of 1e-3, from the gradient, with few vectors."""
        make = GGNLinearOperator if kind == "gn" else HessianLinearOperator

        def run() -> tuple[float, int]:
            params = list(self.model.parameters())
            loss = F.cross_entropy(self.model(self.x), self.y)
            start = torch.cat([grad.reshape(-1) for grad in torch.autograd.grad(loss, params)])
            operator = make(self.model, nn.CrossEntropyLoss(), params, [(self.x, self.y)], check_deterministic=False)
            return _eigsh(lambda v: operator @ v, start, tol=1e-3, ncv=8)  # fewer vectors restart more often

        return run

    def pyhessian(self) -> Contender:
        """Call PyHessian as its own example does: one batch, whose gradient graph it keeps."""

        def run() -> tuple[float, int]:
            count, product = 0, pyhessian.hessian_vector_product

            def counted(*args: object) -> object:
                nonlocal count
                count += 1
                return product(*args)

            pyhessian.hessian_vector_product = counted
            try:
                torch.manual_seed(3)
                with warnings.catch_warnings():  # it keeps graphs in p.grad, of which torch warns
                    warnings.simplefilter("ignore")
                    found = pyhessian.hessian(self.model, nn.CrossEntropyLoss(), data=(self.x, self.y), cuda=False)
                    values, _ = found.eigenvalues(top_n=1)
            finally:
                pyhessian.hessian_vector_product = product
                self.model.zero_grad()
            return values[0], count

        return run

    def power_iteration(self, tol: float = 1e-4) -> Contender:
        """Iterate in PyHessian's manner: cached gradient graph, random start, stop at a small relative change."""

        def run() -> tuple[float, int]:
            weights = Weights(self.model)
            loss = F.cross_entropy(self.model(self.x), self.y)
            grads = torch.autograd.grad(loss, weights.params, create_graph=True)
            v = torch.randn(weights.d, generator=torch.Generator().manual_seed(3))
            value, products = float("nan"), 0
            while products < 200:
                v = v / v.norm()
                image = weights.pull(grads, weights.parts(v))
                products += 1
                before, value, v = value, (v @ image).item(), image
                if abs(value - before) / (abs(before) + 1e-6) < tol:
                    break
            return value, products

        return run

    def edge_of_stability(self) -> Contender:
        """Multiply in the edge-of-stability code's manner: record every gradient anew; eigsh as it comes."""

        def run() -> tuple[float, int]:
            weights = Weights(self.model)

            def product(v: Tensor) -> Tensor:
                total = torch.zeros(weights.d)
                for x, y in zip(self.x.split(1000), self.y.split(1000), strict=True):
                    loss = F.cross_entropy(self.model(x), y, reduction="sum") / len(self.y)
                    grads = torch.autograd.grad(loss, weights.params, create_graph=True)
                    total += weights.pull(grads, weights.parts(v))
                return total

            return _eigsh(product, torch.randn(weights.d, generator=torch.Generator().manual_seed(0)), tol=0.0)

        return run


def _eigsh(product: Callable[[Tensor], Tensor], start: Tensor, tol: float, ncv: int | None = None) -> tuple[float, int]:
    d, count = len(start), 0

    def matvec(v: np.ndarray) -> np.ndarray:
        nonlocal count
        count += 1
        return product(torch.from_numpy(v.astype(np.float32).reshape(-1))).detach().numpy()

    operator = LinearOperator((d, d), matvec=matvec, dtype=np.float32)
    found = eigsh(operator, k=1, which="LA", tol=tol, v0=start.numpy(), ncv=ncv, return_eigenvectors=False)
    return float(found[0]), count


def cold(bench: Bench, *, all_peers: bool) -> None:
    """One cold measurement by everyone."""
    contenders: dict[str, tuple[str, Contender]] = {
        "surefoot, GN": ("gn", bench.ours(Sharpness("gn"))),
        "surefoot, Hessian": ("kappa_max", bench.ours(Sharpness("kappa_max"))),
    }
    if GGNLinearOperator is not None:
        contenders["curvlinops + eigsh, GN"] = ("gn", bench.curvlinops("gn"))
        contenders["curvlinops + eigsh, Hessian"] = ("kappa_max", bench.curvlinops("kappa_max"))
    if all_peers:
        if pyhessian is not None:
            contenders["PyHessian, Hessian"] = ("kappa_max", bench.pyhessian())
        contenders["power iteration, written out"] = ("kappa_max", bench.power_iteration())
        contenders["edge-of-stability, written out"] = ("kappa_max", bench.edge_of_stability())
    print(f"form of the product: {fastest_form(bench.model, bench.x, bench.y)}")
    exact = {kind: bench.exact(kind) for kind in ("gn", "kappa_max")}
    ours: dict[str, float] = {}
    for name, (kind, contender) in contenders.items():
        value, products, cost = bench.cost(contender)
        ours.setdefault(kind, cost)
        error = abs(value / exact[kind] - 1)
        print(
            f"{name:34} {products:4d} products {cost:7.1f} gradients  error {error:.1e}  {cost / ours[kind]:5.1f} ×",
            flush=True,
        )


def probe(bench: Bench, rounds: int) -> None:
    """Compare what watching costs with ten training steps of batch 128."""
    x, y = bench.x[:256].clone(), bench.y[:256]
    follow = Sharpness("gn")
    targets = {"GN sharpness, probe of 256": 0.25, "batch sharpness, one batch of 128": 0.15}
    shares: dict[str, list[float]] = {name: [] for name in targets}
    products = []
    for _ in range(rounds):
        start = time.process_time()
        bench.train(10)
        training = time.process_time() - start
        start = time.process_time()
        products.append(follow.measure(bench.model, x, y).n_products)
        shares["GN sharpness, probe of 256"].append((time.process_time() - start) / training)
        rows = torch.randint(len(bench.y), (128,), generator=bench.generator)
        start = time.process_time()
        batch_sharpness(bench.model, [(bench.x[rows], bench.y[rows])])
        shares["batch sharpness, one batch of 128"].append((time.process_time() - start) / training)
    for name, found in shares.items():
        print(f"{name:34} {statistics.median(found):6.1%} of training (median of {rounds}), target {targets[name]:.0%}")
    print(f"{'products per probe':34} {statistics.mean(products):6.1f}")


def bias(bench: Bench, draws: int = 6) -> None:
    """Compare probes of several sizes with the whole data set: value, and geometric mean with the held-out quotient."""
    whole = bench.exact("gn")
    for n in (128, 256, 512, 1000):
        inside, means = [], []
        for _ in range(draws):
            rows = torch.randperm(len(bench.y), generator=bench.generator)
            held_out = bench.x[rows[n : 2 * n]], bench.y[rows[n : 2 * n]]
            found = Sharpness("gn").measure(bench.model, bench.x[rows[:n]], bench.y[rows[:n]], held_out=held_out)
            inside.append(found.value / whole)
            means.append(found.bracket[2] / whole)
        print(
            f"probe of {n:5d}: in-sample {statistics.mean(inside):.2f} ± {statistics.stdev(inside):.2f}, "
            f"geometric mean {statistics.mean(means):.2f} ± {statistics.stdev(means):.2f} of the whole set's value"
        )


def layerwise(rounds: int) -> None:
    """Compare layer by layer with autograd on the default network, interleaved; the ratio is that of medians."""
    data = fashion()
    model = default_mlp(data.input_shape, data.n_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    x, y, held_out = data.train.inputs[:256], data.train.labels[:256], data.train.inputs[256:320]
    follow = {way: Sharpness("gn", form="reverse") for way in ("layers", "autograd")}
    quantities: dict[str, Callable[[str], object]] = {
        "GN sharpness, 256 examples": lambda way: follow[way].measure(
            model, x, y, held_out=(held_out, data.train.labels[256:320])
        ),
        "Jacobian norms, 64 examples": lambda way: jacobian_norms(model, x[:64]),
    }
    seconds: dict[tuple[str, str], list[float]] = {(name, way): [] for name in quantities for way in follow}
    for _ in range(rounds):
        for rows in torch.randint(len(data.train), (10, 125), generator=generator):
            optimizer.zero_grad()
            F.cross_entropy(model(data.train.inputs[rows]), data.train.labels[rows]).backward()
            optimizer.step()
        for name, way in seconds:
            hook = model.register_forward_hook(lambda *_: None) if way == "autograd" else None
            start = time.process_time()
            quantities[name](way)
            seconds[name, way].append(time.process_time() - start)
            if hook is not None:
                hook.remove()
    for name in quantities:
        layers, autograd = (1e3 * statistics.median(seconds[name, way]) for way in ("layers", "autograd"))
        print(f"{name:34} layers {layers:7.1f} ms, autograd {autograd:7.1f} ms: {autograd / layers:.1f} ×")


def main() -> None:
    """Run the chosen parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["cold", "probe", "bias", "resnet", "layerwise"])
    parser.add_argument("--examples", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    bench = Bench(mlp(), args.examples, lr=0.05)
    bench.train(300)
    if "cold" in args.parts:
        print(f"\nMLP 3072-200-200-10, {args.examples} examples, cold, to 1e-3")
        cold(bench, all_peers=True)
    if "probe" in args.parts:
        print("\nMLP 3072-200-200-10, every 10 steps of batch 128")
        probe(bench, rounds=30)
    if "bias" in args.parts:
        print(f"\nMLP 3072-200-200-10, probes of {args.examples} examples, 6 draws each")
        bias(bench)
    if "resnet" in args.parts:
        print("\nBatchNorm ResNet, 512 examples, cold, to 1e-3")
        resnet = Bench(small_resnet(), 512, lr=0.05)
        resnet.train(60)
        cold(resnet, all_peers=False)
    if "layerwise" in args.parts:
        print("\nDefault network on the embedded clothes, every 10 steps, layer by layer and by autograd")
        layerwise(rounds=10)


if __name__ == "__main__":
    main()
