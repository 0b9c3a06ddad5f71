"""A small BERT from random weights, trained by Hugging Face's Trainer with AdamW and with CSAM around it.

Two layers of width 64, words of the training texts as tokens, no download. The radius ρ is chosen by the NLL on the
calibration split, over all seeds, and judged with everything else on the test split. AdamW is also given twice the
epochs, since CSAM evaluates every batch twice. What is trained is kept in the file given, so a second call prints only.

    python benchmarks/bert.py --text DATA/text/trec --out runs/bert.jsonl
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from surefoot.data import text
from surefoot.integrations.transformers import SurefootTrainer
from surefoot.metrics import accuracy, ece, nll
from surefoot.schema import Split
from surefoot.statistics import difference, spread

RHOS = (0.05, 0.1, 0.2)
METRICS = {"accuracy": accuracy, "ece": ece, "nll": nll}
Values = dict[tuple[str, str, str], dict[int, float]]  # by method, split and metric: by seed


def methods(epochs: int) -> dict[str, tuple[str | None, int]]:
    """Return, by label, each method's name for the Trainer and its number of epochs."""
    plain = {"AdamW": (None, epochs), "AdamW, twice the epochs": (None, 2 * epochs)}
    return plain | {f"CSAM, ρ = {rho:g}": (f"csam:rho={rho:g}", epochs) for rho in RHOS}


def rows_of(split: Split, first: int) -> list[dict[str, Any]]:
    """Return a split's texts as a Trainer reads them, behind a token of which BERT reads off its answer."""
    tokens = torch.nn.functional.pad(split.inputs.long(), (1, 0), value=first)
    return [
        {"input_ids": row, "attention_mask": (row != 0).long(), "labels": label}
        for row, label in zip(tokens, split.labels, strict=True)
    ]


def run(data: Any, given: argparse.Namespace, method: str | None, epochs: int, seed: int) -> dict[str, Any]:
    """Train once; return every metric on both splits."""
    size, n_classes = given.vocabulary, len(data.class_names)
    rows = {name: rows_of(getattr(data, name), size) for name in ("train", "calibration", "test")}
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = BertConfig(vocab_size=size + 1, max_position_embeddings=32, num_labels=n_classes, **shape)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            seed=seed,
            num_train_epochs=epochs,
            per_device_train_batch_size=64,
            per_device_eval_batch_size=250,
            learning_rate=given.lr,
            warmup_steps=50,
            weight_decay=0.01,
            **{"report_to": [], "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "use_cpu": True},
        )
        parts: dict[str, Any] = {"args": args, "train_dataset": rows["train"]}
        parts["model_init"] = lambda: BertForSequenceClassification(config)  # from the seed
        trainer = Trainer(**parts) if method is None else SurefootTrainer(**parts, method=method)
        start = time.perf_counter()
        trainer.train()
        found: dict[str, Any] = {"seconds": time.perf_counter() - start}
        for name in ("calibration", "test"):
            outputs = trainer.predict(rows[name])
            probs = torch.tensor(outputs.predictions).double().softmax(-1)
            labels = getattr(data, name).labels
            found[name] = {key: float(metric(probs, labels)) for key, metric in METRICS.items()}
    return found


def show(values: Values, epochs: int) -> None:
    """Print the calibration split's table for the choice, and the test split's for what was chosen."""
    labels = list(methods(epochs))
    radii = [label for label in labels if label.startswith("CSAM")]
    chosen = min(radii, key=lambda label: spread(values[label, "calibration", "nll"]).mean)
    for split, shown in (("calibration", labels), ("test", [*labels[:2], chosen])):
        print(f"\n| {split} | accuracy % | ECE % | NLL |\n|---|---|---|---|")
        for label in shown:
            print(f"| {label} | {' | '.join(_cell(values[label, split, key], key) for key in METRICS)} |")
    print(f"\n{chosen} minus each, test, with 95 % intervals over seeds")
    for label in labels[:2]:
        gaps = {key: difference(values[chosen, "test", key], values[label, "test", key]) for key in METRICS}
        cells = []
        for key, gap in gaps.items():
            scale = 1 if key == "nll" else 100
            low, high = (_bound(bound) * scale for bound in (gap.low, gap.high))
            cells.append(f"{key} {gap.value * scale:+.3g} [{low:+.3g}, {high:+.3g}]")
        print(f"  {label}: {', '.join(cells)}; n = {gaps['nll'].n}")


def _bound(bound: float | None) -> float:
    """Return a bound; NaN where one seed gives none."""
    return float("nan") if bound is None else bound


def _cell(by_seed: dict[int, float], key: str) -> str:
    found, scale, digits = spread(by_seed), 1 if key == "nll" else 100, 3 if key == "nll" else 1
    sd = "" if found.sd is None else f" ± {found.sd * scale:.{digits}f}"
    return f"{found.mean * scale:.{digits}f}{sd}"


def main() -> None:
    """Train what the file does not hold yet, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", required=True, help="Beginning of the names of the text files: DATA/text/trec.")
    parser.add_argument("--out", type=Path, default=Path("runs/bert.jsonl"), help="Where results are kept.")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--vocabulary", type=int, default=2000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data = text(path=given.text, vocabulary=given.vocabulary, length=24, calibration=0.2)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    lines = given.out.read_text().splitlines() if given.out.is_file() else []
    done = {tuple(row["key"]): row["found"] for row in map(json.loads, lines)}
    values: Values = {}
    for seed in range(given.seeds):
        for label, (method, epochs) in methods(given.epochs).items():
            key = (Path(given.text).name, data.fingerprint, given.lr, method, epochs, seed)
            if key not in done:
                done[key] = run(data, given, method, epochs, seed)
                with given.out.open("a") as file:
                    file.write(json.dumps({"key": key, "found": done[key]}) + "\n")
            for split in ("calibration", "test"):
                for name, value in done[key][split].items():
                    values.setdefault((label, split, name), {})[seed] = value
    sizes = {name: len(getattr(data, name)) for name in ("train", "calibration", "test")}
    print(f"{Path(given.text).name}: {sizes}, {len(data.class_names)} classes, {given.seeds} seeds, lr {given.lr:g}")
    show(values, given.epochs)


if __name__ == "__main__":
    main()
