"""How long one training step takes: surefoot's SAM and CSAM beside plain SGD, the bare floor and other libraries.

All contestants are stepped in turns in one process, a few steps each per turn, and compared by the ratio of their
medians to plain SGD's, so that a noisy machine disturbs all of them alike. Every combination of threads and malloc
setting is a process of its own.

    python benchmarks/optim_step.py                         # everything, some minutes
    python benchmarks/optim_step.py --rows mlp16 --rounds 50 --threads 1 --malloc default
    python benchmarks/optim_step.py --before ../other/src --rows mlp16 --threads 1 --malloc default

The last one loads another version of the package as well, in the same process, and steps both in turns: it prints the
ratio of the medians, new to old, for each method.

Contestants that are not installed (pytorch-optimizer) are left out and named.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

MALLOC = {
    "default": {},
    # glibc keeps freed memory instead of handing it back: what peers need in order not to fault pages in each step
    "tuned": {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "4294967296"},
}
ROWS = {
    "mlp128": "MLP 3072-200-200-10, batch 128",
    "mlp16": "MLP 3072-200-200-10, batch 16",
    "resnet": "ResNet-20, batch 128",
    "vit": "small ViT, batch 64",
}
OURS = {
    "surefoot sam": "sam",
    "surefoot csam": "csam",
    "surefoot looksam k=5": "looksam:k=5",
    "surefoot csam every=5": "csam:every=5",
    "surefoot rst p=0.25": "rst:p=0.25",
    "surefoot aesam": "aesam",
    "surefoot esam": "esam",
    "surefoot muon": "muon",
    "surefoot muon, float32": "muon:precision=float32",
}
BEFORE = ", before"
ALWAYS = ("sgd", "floor", "floor + SGD's step", "bare swap")
Step = Callable[[], Any]


def networks() -> dict[str, Callable[[], tuple[Any, Any, Any]]]:
    """Give, for each row, a function that makes a network, inputs and labels."""
    import torch
    from torch import nn

    class Block(nn.Module):
        """Two convolutions and a shortcut that subsamples and pads, as in the CIFAR ResNets."""

        def __init__(self, fan_in: int, width: int) -> None:
            super().__init__()
            self.stride = width // fan_in
            self.conv1 = nn.Conv2d(fan_in, width, 3, self.stride, 1, bias=False)
            self.norm1 = nn.BatchNorm2d(width)
            self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
            self.norm2 = nn.BatchNorm2d(width)

        def forward(self, x: Any) -> Any:
            out = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
            short = x[:, :, :: self.stride, :: self.stride]
            short = nn.functional.pad(short, (0, 0, 0, 0, 0, out.shape[1] - short.shape[1]))
            return (out + short).relu()

    class ViT(nn.Module):
        """Patches of 4, width 96, four layers."""

        def __init__(self) -> None:
            super().__init__()
            self.patch = nn.Conv2d(3, 96, 4, 4)
            self.position = nn.Parameter(torch.zeros(1, 64, 96))
            layer = nn.TransformerEncoderLayer(96, 3, 192, 0.0, "gelu", batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = nn.Linear(96, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.layers(self.patch(x).flatten(2).mT + self.position).mean(1))

    def mlp() -> nn.Module:
        hidden = [nn.Linear(3072, 200), nn.Tanh(), nn.Linear(200, 200), nn.Tanh()]
        return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(200, 10))

    def resnet() -> nn.Module:
        widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
        blocks = [Block(a, b) for a, b in pairwise(widths)]
        stem = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()]
        return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    def row(make: Callable[[], nn.Module], batch: int) -> Callable[[], tuple[Any, Any, Any]]:
        def build() -> tuple[Any, Any, Any]:
            torch.manual_seed(0)
            return make(), torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))

        return build

    return {"mlp128": row(mlp, 128), "mlp16": row(mlp, 16), "resnet": row(resnet, 128), "vit": row(ViT, 64)}


def contestants(row: str, only: list[str] | None, before: str | None) -> dict[str, Step]:
    """Give, for each contestant, a function that makes one step on a network of its own."""
    made: dict[str, Step] = {}
    for name, factory in [*plain(), *ours(), *older(before), *([] if before else peers())]:
        if only is None or name in ALWAYS or any(name.startswith(wanted) for wanted in only):
            made[name] = factory(*networks()[row]())
    return made


def plain() -> Iterator[tuple[str, Callable[..., Step]]]:
    """Plain SGD; two passes without, and with, its step; the least that SAM can be; the loop that most people copy."""
    import torch
    from torch.nn.functional import cross_entropy

    def sgd(model: Any, x: Any, y: Any) -> Step:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def step() -> None:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            optimizer.step()

        return step

    def floor(model: Any, x: Any, y: Any) -> Step:
        def step() -> None:
            for _ in range(2):
                model.zero_grad()
                cross_entropy(model(x), y).backward()

        return step

    def floor_and_step(model: Any, x: Any, y: Any) -> Step:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

        def step() -> None:
            for _ in range(2):
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
            optimizer.step()

        return step

    def bare_swap(model: Any, x: Any, y: Any) -> Step:
        """Step SAM without any care: no check, no facts, no replay of random numbers, one group, one device."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        params = list(model.parameters())
        places = [torch.empty_like(p) for p in params]

        def step() -> None:
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            grads = [p.grad for p in params]
            with torch.no_grad():
                scale = 0.05 / (torch.stack(torch._foreach_norm(grads)).norm().item() + 1e-12)
                for p, grad, place in zip(params, grads, places, strict=True):
                    torch.add(p, grad, alpha=scale, out=place)
            del grads, grad
            kept = [p.data for p in params]
            for p, place in zip(params, places, strict=True):
                p.data = place
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            for p, own in zip(params, kept, strict=True):
                p.data = own
            optimizer.step()

        return step

    def two_steps(model: Any, x: Any, y: Any) -> Step:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        params = list(model.parameters())

        def step() -> None:
            cross_entropy(model(x), y).backward()
            with torch.no_grad():
                norm = torch.stack([p.grad.norm() for p in params]).norm()
                kept = [p.detach().clone() for p in params]
                for p in params:
                    p.add_(p.grad * (0.05 / (norm + 1e-12)))
            optimizer.zero_grad()
            cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for p, old in zip(params, kept, strict=True):
                    p.data = old
            optimizer.step()
            optimizer.zero_grad()

        return step

    yield from [("sgd", sgd), ("floor", floor), ("floor + SGD's step", floor_and_step)]
    yield from [("bare swap", bare_swap), ("two-step loop", two_steps)]


def ours() -> Iterator[tuple[str, Callable[..., Step]]]:
    """Surefoot's on the same SGD, as a user's loop has them."""
    from torch.nn.functional import cross_entropy

    from surefoot.method import parse_method
    from surefoot.optim import Parts, build_optimizer

    def factory(method: str) -> Callable[..., Step]:
        def make(model: Any, x: Any, y: Any) -> Step:
            text = f"{method}{',' if ':' in method else ':'}lr=0.01,momentum=0.9,weight_decay=0"
            optimizer = build_optimizer(parse_method(text), model)
            if method == "esam":  # which takes a part of the batch
                parts = Parts(lambda part: cross_entropy(model(x[part]), y[part], reduction="none"), n=len(y))
                return lambda: optimizer.step(parts)
            return lambda: optimizer.step(lambda: cross_entropy(model(x), y, reduction="none"))

        return make

    for name, method in OURS.items():
        yield name, factory(method)


def older(folder: str | None) -> Iterator[tuple[str, Callable[..., Step]]]:
    """Return the same from another version of the package, loaded beside this one."""
    if folder is None:
        return
    today = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "surefoot"}
    sys.path.insert(0, folder)
    try:
        found = list(ours())
        for _, factory in found:  # so that everything is imported from there
            factory(*networks()["mlp16"]())()
        home = sys.modules["surefoot"].__file__ or ""
        if not os.path.samefile(os.path.dirname(os.path.dirname(home)), folder):
            raise SystemExit(f"Expected a package surefoot in {folder}, but got {home}.")
    finally:
        sys.path.remove(folder)
        for name in [name for name in sys.modules if name.partition(".")[0] == "surefoot"]:
            del sys.modules[name]
        sys.modules.update(today)
    for name, factory in found:
        yield f"{name}{BEFORE}", factory


def peers() -> Iterator[tuple[str, Callable[..., Step]]]:
    """pytorch-optimizer's SAM, as its documentation uses it, if it is installed."""
    try:
        from pytorch_optimizer import SAM
    except ImportError:
        return
    import torch
    from torch.nn.functional import cross_entropy

    def factory(foreach: bool) -> Callable[..., Step]:
        def make(model: Any, x: Any, y: Any) -> Step:
            optimizer = SAM(
                model.parameters(), torch.optim.SGD, rho=0.05, foreach=foreach or None, lr=0.01, momentum=0.9
            )

            def closure() -> Any:
                optimizer.zero_grad()
                loss = cross_entropy(model(x), y)
                loss.backward()
                return loss

            def step() -> None:
                closure()
                optimizer.step(closure)

            return step

        return make

    yield "pytorch-optimizer sam", factory(False)
    yield "pytorch-optimizer sam foreach", factory(True)


def measure(row: str, options: argparse.Namespace) -> dict[str, float]:
    """Return each contestant's median seconds per step."""
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    rounds = options.rounds
    steps = contestants(row, options.only, options.before)
    per_turn = {"mlp128": 3, "mlp16": 10}.get(row, 1)
    if any("=5" in name or "p=" in name for name in steps):
        per_turn = max(5, per_turn)  # a whole cycle of those that climb at every fifth step
    times: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        for _ in range(3):
            step()
    names = list(steps)
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            begin = clock()
            for _ in range(per_turn):
                steps[name]()
            times[name].append((clock() - begin) / per_turn)
    return {name: statistics.median(values) for name, values in times.items()}


def worker(options: argparse.Namespace) -> None:
    """Measure in this process and print JSON."""
    import torch

    torch.set_num_threads(options.threads[0])
    print(json.dumps({row: measure(row, options) for row in options.rows}))


def show(results: list[dict[str, Any]]) -> None:
    """Print one table per setting: ratio to SGD and to the floor."""
    for result in results:
        print(f"\n{result['threads']} thread(s), {result['malloc']} malloc: ratio to SGD / ratio to the floor")
        for row, medians in result["seconds"].items():
            print(f"  {ROWS[row]} (SGD {1e3 * medians['sgd']:.2f} ms)")
            for name, seconds in medians.items():
                old = medians.get(f"{name}{BEFORE}")
                change = "" if old is None else f"   {seconds / old:5.3f} of before"
                print(f"    {name:32s} {seconds / medians['sgd']:6.2f} {seconds / medians['floor']:6.2f}{change}")


def main() -> None:
    """Run every setting in a process of its own, print the tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="networks and batch sizes")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2], help="numbers of threads")
    parser.add_argument("--malloc", nargs="+", choices=MALLOC, default=list(MALLOC), help="settings of glibc's malloc")
    parser.add_argument("--rounds", type=int, default=40, help="turns per contestant")
    parser.add_argument("--only", nargs="+", help="contestants, by the beginning of their names; SGD and floor stay")
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: this process's own time, for a busy machine"
    )
    parser.add_argument("--before", metavar="SRC", help="folder with another version of the package to compare with")
    parser.add_argument("--json", help="write the medians to this file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options)
        return
    if not options.before and not list(peers()):
        print("pytorch-optimizer is not installed and left out: pip install pytorch-optimizer", file=sys.stderr)
    results = []
    for threads in options.threads:
        for malloc in options.malloc:
            words = ["--rows", *options.rows, "--rounds", str(options.rounds), "--threads", str(threads)]
            words += ["--clock", options.clock]
            words += ["--only", *options.only] if options.only else []
            words += ["--before", options.before] if options.before else []
            done = subprocess.run(
                [sys.executable, __file__, "--worker", *words],
                env={**os.environ, **MALLOC[malloc], "OMP_NUM_THREADS": str(threads)},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            results.append({"threads": threads, "malloc": malloc, "seconds": json.loads(done.stdout)})
            show(results[-1:])
    if options.json:
        about = {"machine": platform.processor() or platform.machine(), "python": platform.python_version()}
        with open(options.json, "w") as file:
            json.dump({**about, "rounds": options.rounds, "clock": options.clock, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
