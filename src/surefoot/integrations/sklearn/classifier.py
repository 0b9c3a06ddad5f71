"""A network as a scikit-learn classifier, trained by any surefoot method."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from skorch.callbacks import EarlyStopping
from skorch.helper import predefined_split
from torch import Tensor, nn

from surefoot.errors import OptionError
from surefoot.imported import did_you_mean
from surefoot.integrations.sklearn._errors import ValueInputError
from surefoot.integrations.sklearn._net import Absent, Examples, Plan, Standardised, TrainingNet
from surefoot.integrations.sklearn._parts import arguments, as_inputs, check_logits, read_method
from surefoot.losses import Loss
from surefoot.models import mlp, try_out
from surefoot.registry import LOSSES, MODELS
from surefoot.schema import Split, Splits
from surefoot.seeding import generator, seeded
from surefoot.training import predict

Array = np.ndarray[Any, Any]
_PREFIXES = ("method__", "module__")


class SurefootClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A neural network that is trained to know how sure to be.

    Training is skorch's loop around surefoot's steps: every loss and every optimizer that ``surefoot list`` names.
    ``method__rho=0.1`` sets an option of the method, ``module__width=50`` one of the network; both can be searched.

    Args:
        module: The network: a function or a class, called with those of ``input_shape``, ``n_features`` and
            ``n_classes`` that it takes; a name as ``"mlp:width=50"``; or a module, of which a copy is trained. None is
            an ``mlp`` behind a layer that standardises the features. Its outputs are logits.
        method: How to train, as for ``surefoot train``: ``"csam"``, ``"focal + sam:rho=0.1"``; no ensembles.
            ``"csam:tune=auto"`` turns ρ, γ and weight decay by the held-out rows after every epoch.
        lr: Learning rate; the optimizer's own where it is None.
        max_epochs: Passes over the training rows.
        batch_size: Rows per step, at most.
        schedule: Learning rate over time: ``"cosine"``, ``"linear"`` or ``"constant"``.
        class_weight: As in scikit-learn: None, ``"balanced"`` or a dictionary.
        early_stopping: Stop when the NLL of held-out rows has not fallen for ``patience`` epochs; take the best
            weights.
        validation_fraction: Share of the rows to hold out; None is 0.1 with early stopping, else 0.
        patience: Epochs to wait for it.
        callbacks: Of skorch, called during training.
        device: Where to train.
        verbose: 1 prints a line per epoch.
        random_state: Determines everything that is drawn. Global generators are left as they were.
        **options: Options of the method and of the network.

    Attributes:
        classes_: Labels of the classes, in the order of the columns of ``predict_proba``.
        module_: The trained network.
        history_: What skorch recorded, epoch by epoch; ``history_[:, "steering/rho"]`` where ρ was turned.
        n_iter_: Epochs trained.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> x, y = load_iris(return_X_y=True)
        >>> SurefootClassifier(max_epochs=5, random_state=0).fit(x, y).predict_proba(x).shape
        (150, 3)
    """

    def __init__(
        self,
        module: Any = None,
        *,
        method: str = "csam",
        lr: float | None = None,
        max_epochs: int = 40,
        batch_size: int = 128,
        schedule: str = "cosine",
        class_weight: Any = None,
        early_stopping: bool = False,
        validation_fraction: float | None = None,
        patience: int = 5,
        callbacks: Sequence[Any] | None = None,
        device: str = "cpu",
        verbose: int = 0,
        random_state: Any = None,
        **options: Any,
    ) -> None:
        self.module, self.method, self.lr = module, method, lr
        self.max_epochs, self.batch_size, self.schedule = max_epochs, batch_size, schedule
        self.class_weight, self.early_stopping, self.validation_fraction = (
            class_weight,
            early_stopping,
            validation_fraction,
        )
        self.patience, self.callbacks, self.device = patience, callbacks, device
        self.verbose, self.random_state = verbose, random_state
        for name, value in options.items():  # which fit looks at, as everything: nothing is refused before
            setattr(self, name, value)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters, options too."""
        return {**super().get_params(deep), **self._more()}

    def set_params(self, **params: Any) -> SurefootClassifier:
        """Set parameters, options too."""
        for name in [name for name in params if name.startswith(_PREFIXES)]:
            setattr(self, name, params.pop(name))
        super().set_params(**params)
        return self

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SurefootClassifier:
        """Train on rows and labels.

        Args:
            X: Rows, shape ``(n, features)`` or ``(n, …)``.
            y: Labels, shape ``(n,)``: numbers or texts.
            sample_weight: How much each row counts. Only their proportions matter.

        Returns:
            The estimator.

        Raises:
            InputError: If a part is unknown or does not fit the data.
        """
        X, y = validate_data(self, X, y, dtype=np.float32, allow_nd=True)
        check_classification_targets(y)
        for name in self._more():
            _check_name(name, self._get_param_names())
        weights = None
        if sample_weight is not None or self.class_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            counts = weights > 0
            X, y, weights = X[counts], y[counts], weights[counts]
            weights = weights * compute_sample_weight(self.class_weight, y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueInputError("Expected y to have two classes or more, but got one class. Give rows of others too.")
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        with seeded(seed, "sklearn"):
            self._train(torch.from_numpy(np.array(X)), torch.from_numpy(labels), weights, seed)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class, a column each, in the order of ``classes_``; float32."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, allow_nd=True, reset=False)
        inputs = as_inputs(torch.from_numpy(np.array(X)), self.module_)
        logits = predict(self.module_, Split(inputs, torch.zeros(len(inputs), dtype=torch.long)))
        probs: Array = logits.softmax(1).numpy()
        return probs

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row."""
        likeliest: Array = self.predict_proba(X).argmax(1)
        return self.classes_[likeliest]

    def _train(self, inputs: Tensor, labels: Tensor, weights: Array | None, seed: int) -> None:
        method = read_method(self.method, self.lr, self._options("method__"))
        held_out = self.validation_fraction
        if held_out is None:
            held_out = 0.1 if self.early_stopping else 0.0
        rows, others = np.arange(len(labels)), np.arange(0)
        if held_out:
            rows, others = train_test_split(rows, test_size=held_out, stratify=labels.numpy(), random_state=seed)
        elif self.early_stopping:
            raise ValueInputError("Expected held-out rows to stop by, but got validation_fraction=0. Leave it out.")
        elif method.tune is not None:
            raise ValueInputError(
                f"Expected held-out rows for tune={method.tune}, by which to steer, but there are none. "
                "Pass validation_fraction=0.1."
            )
        shares = None
        if weights is not None:  # one on the average, so that the learning rate means the same
            shares = torch.from_numpy(weights / weights[rows].mean()).float()
        model = self._build(inputs[rows], None if shares is None else shares[rows])
        inputs = as_inputs(inputs, model)
        valid: Any = Split(inputs[others], labels[others]) if len(others) else Absent()
        names, absent = tuple(map(str, self.classes_)), cast(Split, Absent())
        splits = Splits(Split(inputs[rows], labels[rows]), valid, absent, names, "")
        try_out(model, "module", splits)
        check_logits(model, inputs[:8])
        loss: Loss = LOSSES.build(method.loss)
        model = loss.attach(model, splits, generator(seed, "attach"))
        plan = Plan(method, loss, splits, None if shares is None else shares[rows], self.schedule, seed)
        net = self._net(
            model, plan, Examples(valid, None if shares is None else shares[others]) if len(others) else None
        )
        net.fit(Examples(splits.train, plan.weights), None)
        self.module_, self.history_, self.n_iter_ = net.module_.eval(), net.history_, len(net.history_)

    def _net(self, model: nn.Module, plan: Plan, held_out: Examples | None) -> TrainingNet:
        callbacks = list(self.callbacks or ())
        if self.early_stopping:
            callbacks.append(("early_stopping", EarlyStopping(patience=self.patience, load_best=True, sink=_silent)))
        options = {} if held_out is not None else {"callbacks__valid_acc": None, "callbacks__valid_loss": None}
        options |= {} if self.verbose else {"callbacks__print_log": None}  # which prints where print is not its own
        return TrainingNet(
            model,
            plan=plan,
            criterion=nn.CrossEntropyLoss,
            max_epochs=self.max_epochs,
            batch_size=self.batch_size,
            train_split=predefined_split(held_out) if held_out is not None else None,
            classes=list(range(len(self.classes_))),
            callbacks=callbacks,
            device=self.device,
            verbose=self.verbose,
            **options,
        )

    def _build(self, inputs: Tensor, weights: Tensor | None) -> nn.Module:
        """Make the network for rows and classes."""
        shape, n_classes, options = tuple(inputs.shape[1:]), len(self.classes_), self._options("module__")
        if self.module is None:
            return Standardised(mlp(shape, n_classes, **options), inputs, weights)
        if isinstance(self.module, nn.Module):
            if options:
                raise ValueInputError(
                    f"Expected a class to give {', '.join(options)} to, but got a module that is made."
                )
            return copy.deepcopy(self.module)
        make = self.module
        if isinstance(make, str):
            spec = MODELS.parse(make)
            make, options = MODELS[spec.name].build, {**spec.options, **options}
        made = make(**arguments(make, {"input_shape": shape, "n_features": shape[0], "n_classes": n_classes}, options))
        if not isinstance(made, nn.Module):
            raise ValueInputError(f"Expected module to make a torch.nn.Module, but got a {type(made).__name__}.")
        return made

    def _more(self) -> dict[str, Any]:
        """Return what was given beside the parameters that have names of their own."""
        named = self._get_param_names()
        given = {name: value for name, value in vars(self).items() if not name.startswith("_") and name[-1] != "_"}
        return {name: value for name, value in given.items() if name not in named}

    def _options(self, prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): value for name, value in vars(self).items() if name.startswith(prefix)}


def _silent(*_: Any) -> None:
    """Say nothing when training stops early; ``n_iter_`` does."""


def _check_name(name: str, known: list[str]) -> None:
    if not name.startswith(_PREFIXES):
        raise OptionError(
            f"SurefootClassifier takes no parameter {name!r}.{did_you_mean(name, known)} "
            f"An option of the method is method__{name}, one of the network module__{name}."
        )
