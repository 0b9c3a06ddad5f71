"""What several GPUs cost: bytes, memory and waiting of a sharpness-aware step, seconds of an audit; model and reality.

    python benchmarks/scale.py                    # everything, ten minutes on two cores; draws docs/scale.png
    python benchmarks/scale.py --quick            # fewer steps and rows, two minutes; draws nothing unless asked to
    python benchmarks/scale.py --parts bytes      # one part; readoff alone needs no measurement
    python benchmarks/scale.py --parts delay readoff --figure scale.png

``bytes`` counts what real processes send, by the messages asked of a gloo group and by the kernel's counters of their
connections, and the tensors that they hold. ``time`` times steps on this machine. ``delay`` holds messages back as
a slower network would: layers wait instead of computing, and DDP, its buckets, the optimizer and the averages are real.
``audit`` times audits in 1, 2 and 4 processes at once. ``readoff`` prints what the model says of 8, 64 and 1,024 GPUs.
Processes are compared by medians, made in turns. Runs on Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import _scale_model as model
from _scale_model import METHODS, Message
from _scale_networks import MACHINES, NETWORKS
from _scale_times import Link, Load, audit_seconds, hidden_until

HERE = Path(__file__).parent
WIDTHS = [64, 501, 400, 10]  # of the perceptron whose messages are counted: rows that do not divide evenly
TIMED = [256, 1024, 1024, 1024, 10]
KINDS = {
    "sgd": "sgd",
    "sam": "rank",
    "csam": "rank",
    "sam, synchronised": "synchronised",
    "csam, synchronised": "synchronised",
    "sam, stable": "late",
    "gsam": "late, both",
}
LAYERS, NUMBERS, CAP = 12, 16_384, 131_072  # of the simulation: layers that wait, numbers in each, bytes of a bucket
SLOWER = [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0]  # messages in backward passes
RINGS = [8, 64, 1024]
LATENCY = 20e-6


def torchrun(n: int, part: str, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Let n processes do a part, and return what each found."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n}"]
        words += [str(HERE / "_scale_ranks.py"), part, folder, json.dumps(options)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        return [json.loads(Path(folder, f"rank{rank}.json").read_text()) for rank in range(n)]


def expected(row: str, n: int, rank: int, widths: Sequence[int] = WIDTHS) -> tuple[list[Message], int]:
    """Return the messages and the bytes of memory that the model expects of a row such as ``ddp/sam``."""
    how, _, name = row.partition("/")
    method = METHODS[KINDS[name]]
    layers = [((b, a), (b,)) for a, b in pairwise(widths)]
    shapes = [shape for layer in layers for shape in layer]
    if how == "ddp":
        return model.ddp_messages(shapes, method), sum(model.ddp_memory(shapes, method).values())
    messages = model.fsdp_messages(layers[:-1], layers[-1], method, n) if n > 1 else []
    return messages, sum(model.fsdp_memory(shapes, method, n, rank).values())


def in_order(messages: Sequence[Message]) -> list[Message]:
    """Sort messages: which comes first under FSDP2 is its own affair."""
    return sorted(messages, key=lambda message: (message.kind, message.n_bytes))


def show_bytes(quick: bool) -> None:
    """Count messages and tensors on real processes."""
    whole = sum(a * b + b for a, b in pairwise(WIDTHS)) * model.FLOAT
    print(f"\nBytes and memory of a step, perceptron {'-'.join(map(str, WIDTHS))}, {whole:,} bytes of parameters")
    print("sent: per rank in a ring; wire: the kernel's count, gloo's headers included; memory: rank 0's tensors")
    for n in (2,) if quick else (1, 2, 4):
        found = torchrun(n, "count", {"widths": WIDTHS})
        print(f"  {n} process(es)         model sent  counted   wire/model   model memory  counted   in parameters")
        for row, first in found[0].items():
            messages, memory = expected(row, n, 0)
            alike = True
            for rank, mine in enumerate(found):
                wanted, held = expected(row, n, rank)
                got = [Message(*message) for message in mine[row]["messages"]] if n > 1 or "ddp" in row else []
                alike &= in_order(got) == in_order(wanted) and held == mine[row]["memory"] and mine[row]["steady"]
            counted = model.sent([Message(*message) for message in first["messages"]], n)
            # gloo reduces and scatters by an all-reduce
            on_wire = sum((1 + (m.kind == "reduce_scatter")) * m.sent(n) for m in messages)
            wire = f"{first['wire'] / on_wire:.4f}" if n > 1 else "—"
            print(
                f"    {row:24s} {model.sent(messages, n):11,.0f} {counted:11,.0f} {wire:>8s}"
                f" {memory:14,d} {first['memory']:11,d} {memory / whole:6.2f}  {'exact on all' if alike else 'DIFFERS'}"
            )


def show_train() -> None:
    """Count what a step of the command line sends beside its gradients."""
    job = {"data": "digits", "model": "mlp:width=16", "method": "csam", "batch_size": 128}
    kinds = [f"{kind} {n_bytes:,}" for kind, n_bytes in torchrun(2, "train", job)[0]["messages"]]
    print(f"  a step of `surefoot train` with CSAM, ten classes, 2 processes, bytes: {', '.join(kinds)}")


def show_time(quick: bool) -> None:
    """Time steps on this machine beside what the model makes of its bare computation and messages."""
    print(f"\nStep time on this machine ({os.cpu_count()} cores), perceptron {'-'.join(map(str, TIMED))}, batch 64")
    print("  model: the optimizer's step without messages, plus what SGD waits for: once rank-wise, twice synchronised")
    for n in (1, 2) if quick else (1, 2, 4):
        found = torchrun(n, "time", {"widths": TIMED, "batch": 64, "turns": 7 if quick else 25})
        middle = {key: statistics.median(each["seconds"][key] for each in found) for key in found[0]["seconds"]}
        sgd, compute = middle["sgd"], middle["sgd, unshared"]
        about = f"  {n} process(es): SGD {1e3 * sgd:.1f} ms, {1e3 * compute:.1f} without messages"
        if n > 1:
            whole = Message("all_reduce", sum(found[0]["sizes"]))
            beta = whole.sent(n) / max(1e-9, middle["messages"] - middle["message"])
            about += f"; a bare message has α {1e6 * middle['message'] / (2 * (n - 1)):.0f} µs, β {beta / 1e9:.2f} GB/s"
        print(about)
        for name in ("csam", "csam, synchronised"):
            said = middle["csam, unshared"] + METHODS[KINDS[name]].shared * (sgd - compute)
            error = 100 * (middle[name] - said) / middle[name]
            print(f"    {name:20s} {middle[name] / sgd:.2f} × SGD, model {said / sgd:.2f}, error {error:+.0f} %")


def layers(step: float) -> Load:
    """Return the simulated layers as the model sees them, if a step of SGD takes so many seconds."""
    return Load((NUMBERS * model.FLOAT,) * LAYERS, step / 3, 2 * step / 3, first=CAP, cap=CAP)


def simulate(quick: bool) -> list[dict[str, Any]]:
    """Hold messages back, and print for how long steps wait beside what the model says."""
    seconds = 0.004
    backward = 2 * LAYERS * seconds
    whole = LAYERS * NUMBERS * model.FLOAT
    slower = SLOWER[1::2] if quick else SLOWER
    links = [(0.0, whole / (factor * backward), False, 2) for factor in slower]
    links += [(LATENCY, 2 * whole / (0.5 * backward), False, n) for n in (RINGS[-1:] if quick else RINGS)]
    names = ["messages"] * len(slower)
    names += [f"ring of {n:,}, α {1e6 * LATENCY:.0f} µs" for n in (RINGS[-1:] if quick else RINGS)]
    options = {"layers": LAYERS, "numbers": NUMBERS, "seconds": seconds, "cap": CAP}
    options |= {"turns": 3 if quick else 9, "links": [None, *links]}
    found = torchrun(2, "delay", options)
    middle = {key: statistics.median(each["seconds"][key] for each in found) for key in found[0]["seconds"]}
    step = middle["sgd/0"]
    load = layers(step)
    print(f"\nWaiting behind a slower network, simulated: {LAYERS} layers, backward {1e3 * load.backward:.0f} ms, ")
    print(f"{len(load.buckets)} buckets; ms that the network adds to a step: simulated / model, error in % of the step")
    print(f"  {'':28s}" + "".join(f"{name:>26s}" for name in ("sgd", "sam", "sam, synchronised", "sam, stable")))
    rows = []
    for which, (name, link) in enumerate(zip(names, links, strict=True), 1):
        *numbers, n = link
        share = load.communication(Link(*numbers), n) / load.backward
        row: dict[str, Any] = {"name": name, "share": share}
        line = f"  {name if numbers[0] else f'messages {share:.2f} × backward':28s}"
        for method in ("sgd", "sam", "sam, synchronised", "sam, stable"):
            waited = middle[f"{method}/{which}"] - middle[f"{method}/0"]
            said = load.waits(METHODS[KINDS[method]], Link(*numbers), n)
            error = (waited - said) / middle[f"{method}/{which}"]
            row[method] = (waited / load.backward, said / load.backward)
            line += f"{1e3 * waited:10.0f} / {1e3 * said:4.0f} {100 * error:+5.1f} %"
        print(line)
        rows.append(row)
    return rows


def show_audit(quick: bool) -> None:
    """Time audits of rows with one score, several at once, and read off what 10⁹ rows take."""
    from audit import PART, PARTS_SCRIPT, write_part

    parts = (1, 3) if quick else (2, 12)
    print("\nAudit, one score per row, .parquet: seconds of one core, processes at once")
    slopes, starts = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "part.parquet")
        write_part(path)
        for workers in (1, 2) if quick else (1, 2, 4):
            middle = []
            for k in parts:
                words = [sys.executable, "-c", PARTS_SCRIPT, str(path), str(k)]
                running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(workers)]
                middle.append(statistics.median(json.loads(each.communicate()[0])["cpu"] for each in running))
            slopes.append((middle[1] - middle[0]) / (parts[1] - parts[0]) / PART)
            starts.append(middle[0] - slopes[-1] * parts[0] * PART)
            print(
                f"  {workers} process(es): {1e6 * slopes[-1]:.2f} s per million rows, {starts[-1]:.1f} s for the rest"
            )
    print("  10⁹ rows, by the model, with the first line's numbers:")
    for workers in (1, 2, 4, 8, 64, 1024):
        print(f"  {workers:6,d} worker(s) {audit_seconds(1e9, slopes[0], starts[0], workers):8,.0f} s")


def show_readoff(batch: int) -> None:
    """Print what the model says of 8, 64 and 1,024 GPUs."""
    print("\nBytes that a GPU sends in a step, in parameters' bytes")
    blocks = [((4096, 4096),)] * 24  # of a size that all these numbers divide
    print("  " + f"{'':26s}" + "".join(f"{n:>8,d}" for n in RINGS))
    for name, kind in [("DDP, SGD", "sgd"), ("DDP, SAM or CSAM", "rank"), ("DDP, synchronised", "synchronised")]:
        print(f"  {name:26s}" + "".join(f"{2 * METHODS[kind].shared * (n - 1) / n:8.2f}" for n in RINGS))
    whole = sum(model.size(shape) for block in blocks for shape in block)
    for name, kind in [("FSDP2, SGD", "sgd"), ("FSDP2, SAM or CSAM", "synchronised")]:
        each = [model.sent(model.fsdp_messages(blocks, (), METHODS[kind], n), n) / whole for n in RINGS]
        print(f"  {name:26s}" + "".join(f"{value:8.2f}" for value in each))
    outputs = ", ".join(f"{n * batch * 1000 * model.FLOAT / 1e6:,.1f}" for n in RINGS)
    print(
        f"  for losses that remember outputs, `surefoot train` gathers them; with {batch} examples per GPU and 1,000 "
        f"classes, MB: {outputs}"
    )
    print("\nMemory of a GPU without activations, MB: SGD with momentum, AdamW")
    for title, network in NETWORKS.items():
        shapes = [shape for shape, _ in network.layers]
        print(f"  {title}, {network.n_bytes / 4e6:.1f} M parameters, {network.n_bytes / 1e6:.0f} MB")
        for name, kind in [("SGD", "sgd"), ("SAM or CSAM", "rank"), ("GSAM, GNP", "late, both")]:
            held = [sum(model.ddp_memory(shapes, METHODS[kind], states).values()) for states in (1, 2)]
            line = f"    DDP {name:14s} {held[0] / 1e6:8,.0f} {held[1] / 1e6:8,.0f}"
            if kind != "late, both":
                for n in RINGS:
                    held = [sum(model.fsdp_memory(shapes, METHODS[kind], n, 0, states).values()) for states in (1, 2)]
                    line += f"   FSDP2 on {n:,}: {held[0] / 1e6:6,.0f} {held[1] / 1e6:6,.0f}"
            print(line)
    show_waiting(batch)


def show_waiting(batch: int) -> None:
    """Print how long steps wait, and from which batch on a backward pass hides its messages."""
    print(f"\nWaiting, {batch} examples per GPU; assumed speeds and networks:")
    for title, network in NETWORKS.items():
        print(f"  {title}: {network.speed:,.0f} examples/s per GPU with SGD, two thirds of it backward")
    for title, each in MACHINES.items():
        places = zip(("inside", "between"), (each.inside, each.between), strict=True)
        print(f"  {title}: " + ", ".join(f"α {1e6 * a:.0f} µs β {b / 1e9:g} GB/s {where}" for where, (a, b) in places))
    print("  share of a step that waits; hides from: smallest batch per GPU whose backward is as long as its messages,")
    print("  where latency grows with the depth of a tree (in brackets: with the length of a ring)")
    print(f"  {'':11s}{'':24s}{'GPUs':>6s}{'messages':>10s}{'SGD':>7s}{'SAM':>7s}{'synchr.':>8s}  hides from")
    for (title, network), (kind, each), n in product(NETWORKS.items(), MACHINES.items(), RINGS):
        load = network.load(batch)
        line = f"  {title:11s}{kind:24s}{n:6,d}{1e3 * load.communication(each.link(n), n):7.1f} ms"
        for method in (METHODS["sgd"], METHODS["rank"], METHODS["synchronised"]):
            waits = load.waits(method, each.link(n), n)
            line += f"{100 * waits / (waits + load.computes(method)):5.0f} %"
        loads = {size: network.load(size) for size in range(1, 4097)}
        print(f"{line}   {hidden_until(loads, each.link(n), n)} ({hidden_until(loads, each.link(n, False), n)})")


PARTS = ("bytes", "time", "delay", "audit", "readoff")


def main() -> None:
    """Print the parts that are wanted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--quick", action="store_true", help="fewer steps and rows")
    parser.add_argument("--batch", type=int, default=32, help="examples per GPU, in the read-off")
    parser.add_argument("--figure", help="where to draw; docs/scale.png if everything is measured in full")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if "bytes" in options.parts:
        show_bytes(options.quick)
        show_train()
    if "time" in options.parts:
        show_time(options.quick)
    if "delay" in options.parts:
        rows = simulate(options.quick)
    if "audit" in options.parts:
        show_audit(options.quick)
    if "readoff" in options.parts:
        show_readoff(options.batch)
    is_whole = set(options.parts) == set(PARTS) and not options.quick
    figure = options.figure or (str(HERE.parent / "docs" / "scale.png") if is_whole else None)
    if figure:
        from _scale_figure import draw  # needs matplotlib

        draw(rows, layers(1.5), figure)
        print(f"\nFigure: {figure}")


if __name__ == "__main__":
    main()
