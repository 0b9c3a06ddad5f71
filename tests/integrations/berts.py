"""A tiny BERT, rows for it, a Trainer, and the plain loop that the Trainer should equal."""

import torch
from torch.nn.utils import clip_grad_norm_
from transformers import BertConfig, BertForSequenceClassification, TrainerCallback, TrainingArguments

from surefoot.integrations.transformers import SurefootTrainer
from surefoot.optim import ASAM, CSAM, SAM

METHODS = {"sam": SAM, "csam": CSAM, "asam": ASAM}
BATCH = 4


def config(dropout=0.0, **options):
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    sizes = {"vocab_size": 30, "hidden_size": 16, "intermediate_size": 24, "max_position_embeddings": 8}
    return BertConfig(**sizes, **rates, num_hidden_layers=1, num_attention_heads=2, num_labels=3, **options)


def bert(dropout=0.0, kind=BertForSequenceClassification, **options):
    torch.manual_seed(1)
    return kind(config(dropout, **options))


def rows(n=14):
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 30, (n, 6), generator=draw)
    return [{"input_ids": row, "labels": row[0] % 3} for row in tokens]


def optimizer(name, model, **options):
    return METHODS[name](torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model, rho=0.1, **options)


class Reseed(TrainerCallback):
    """Lets every step draw its own numbers, so that a loop elsewhere can draw the same."""

    def on_step_begin(self, args, state, control, **_):
        torch.manual_seed(state.global_step)

    def on_substep_end(self, args, state, control, **_):
        torch.rand(3)  # somebody else draws between two micro-batches


def arguments(folder, **options):
    quiet = {"report_to": [], "disable_tqdm": True, "logging_strategy": "no", "save_strategy": "no", "use_cpu": True}
    order = {"train_sampling_strategy": "sequential", "per_device_train_batch_size": BATCH, "num_train_epochs": 1}
    return TrainingArguments(output_dir=str(folder), **(quiet | order | {"max_grad_norm": 0.0} | options))


def trainer(model, folder, made=None, data=None, *, kind=SurefootTrainer, method=None, extra=None, **options):
    """A Trainer that reads the rows in their order; ``extra`` goes to the Trainer, options to its arguments."""
    given = {"callbacks": [Reseed]} | (extra or {}) | ({} if method is None else {"method": method})
    given |= {} if made is None else {"optimizers": (made, None)}
    return kind(model, arguments(folder, **options), train_dataset=rows() if data is None else data, **given)


def trained(*args, **kw):
    """The weights that a Trainer ends with."""
    made = trainer(*args, **kw)
    made.train()
    return [parameter.detach().clone() for parameter in made.model.parameters()]


def by_logits(optimizer, outputs, labels):
    """The loss of a micro-batch: the mean over its labels that count."""
    return optimizer.loss(outputs.logits.float(), labels)


def by_model(optimizer, outputs, labels):
    """What the model itself returns as its loss."""
    return outputs.loss.float()


def plain_loop(model, optimizer, *, loss=by_logits, n=1, clip=0.0, bf16=False, data=None, count=len):
    """Train in a loop of one's own: the mean over all micro-batches of a step, in both passes."""
    data, model = rows() if data is None else data, model.train()
    batches = [data[i : i + BATCH] for i in range(0, len(data), BATCH)]
    batches = [{key: torch.stack([row[key] for row in batch]) for key in batch[0]} for batch in batches]
    groups = [batches[i : i + n] for i in range(0, len(batches), n)]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 - t / len(groups))
    for t, group in enumerate(groups):
        whole = sum(count(batch["labels"]) for batch in group)

        def evaluate(group=group, whole=whole):
            for number, batch in enumerate(group):
                with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
                    outputs = model(**batch)
                (loss(optimizer, outputs, batch["labels"]) * (count(batch["labels"]) / whole)).backward()
                if number < len(group) - 1:
                    torch.rand(3)

        torch.manual_seed(t)
        optimizer.zero_grad()
        evaluate()
        with optimizer.perturbed():
            evaluate()
        if clip:
            clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        schedule.step()
    return [parameter.detach().clone() for parameter in model.parameters()]
