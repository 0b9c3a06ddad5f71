from __future__ import annotations

from typing import Literal

import pytest

from surefoot.errors import InputError, OptionError, UnknownNameError
from surefoot.method import parse_method, split_methods
from surefoot.options import Option
from surefoot.registry import KINDS, MODELS, OPTIMIZERS, Registry
from surefoot.schema import PartSpec


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (float, "2", 2.0),
        (float, "1e-3", 1e-3),
        (int, "7", 7),
        (bool, "true", True),
        (bool, "no", False),
        (str, "x", "x"),
        (int | None, "none", None),
        (float | None, "0.5", 0.5),
        (Literal["relu", "tanh"], "tanh", "tanh"),
    ],
)
def test_options_are_read_as_declared(kind: object, text: str, value: object) -> None:
    read = Option("o", kind).read(text, "part")
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "says"),
    [
        (float, "much", "a number"),
        (int, "1.5", "a whole number"),
        (bool, "maybe", "true or false"),
        (Literal["relu", "tanh"], "gelu", "relu or tanh"),
    ],
)
def test_wrong_values_say_what_is_expected(kind: object, text: str, says: str) -> None:
    with pytest.raises(OptionError, match=f"Expected part:o to be {says}, but got '{text}'"):
        Option("o", kind).read(text, "part")


def test_unknown_names_come_with_close_matches() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown optimizer 'sma'. Did you mean 'sam'.*Run `surefoot list`"):
        OPTIMIZERS.parse("sma")


def test_unknown_options_come_with_close_matches() -> None:
    with pytest.raises(OptionError, match=r"Unknown option 'gama' for 'csam'.*Did you mean 'gamma'"):
        OPTIMIZERS.parse("csam:gama=2")


def test_options_of_a_changed_file_are_refused_when_the_part_is_built() -> None:
    with pytest.raises(OptionError, match=r"Unknown option 'widht' for 'mlp'.*Did you mean 'width'"):
        MODELS.build(PartSpec("mlp", {"widht": 8}), (1, 2, 2), 3)
    with pytest.raises(OptionError, match=r"Expected mlp:width to be a whole number, but got \[8\]"):
        MODELS.build(PartSpec("mlp", {"width": [8]}), (1, 2, 2), 3)  # type: ignore[dict-item]


def test_names_are_taken_once() -> None:
    registry = Registry("thing", "models")

    def build() -> None:
        """A thing."""

    registry.register("a")(build)
    with pytest.raises(ValueError, match=r"'a' is registered already, by tests\.test_registry"):
        registry.register("a")(build)


def test_facts_and_docstring_are_demanded() -> None:
    registry = Registry("thing", "models", facts={"reference": ""})

    def build() -> None:
        """A thing."""

    with pytest.raises(ValueError, match="reference"):
        registry.register("a")(build)


def test_parts_by_import_path(tmp_path, monkeypatch) -> None:
    (tmp_path / "my_nets.py").write_text("def make(shape, k, *, width: int = 3):\n    'My net.'\n    return width\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = KINDS["models"].parse("my_nets:make:width=5")
    assert (spec.name, spec.options) == ("my_nets:make", {"width": 5})
    assert spec.source is not None
    assert KINDS["models"].build(spec, (1,), 2) == 5
    with pytest.raises(UnknownNameError, match="cannot import 'no_such_module'"):
        KINDS["models"].parse("no_such_module:make")
    with pytest.raises(UnknownNameError, match="has no function 'nosuch'"):
        KINDS["models"].parse("my_nets:nosuch")


def test_first_option_needs_no_name() -> None:
    assert KINDS["data"].parse("npz:/data/a=b.npz").options["path"] == "/data/a=b.npz"
    with pytest.raises(OptionError, match="Expected npz to be given path"):
        KINDS["data"].parse("npz")


@pytest.mark.parametrize("kind", KINDS)
def test_every_part_is_described(kind: str) -> None:
    parts = list(KINDS[kind])
    assert parts
    for part in parts:
        assert part.summary.endswith("."), part.name
        assert len(part.summary) < 120, part.name


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("sgd,sam,csam", ["sgd", "sam", "csam"]),
        ("csam:gamma=2,rho=0.1,sam", ["csam:gamma=2,rho=0.1", "sam"]),
        (
            "label_smoothing:alpha=0.1 + csam:rho=0.1,gamma=2, sgd",
            ["label_smoothing:alpha=0.1 + csam:rho=0.1,gamma=2", "sgd"],
        ),
        ("sgd", ["sgd"]),
    ],
)
def test_methods_are_split(text: str, methods: list[str]) -> None:
    assert split_methods(text) == methods


def test_methods_are_completed() -> None:
    method = parse_method("label_smoothing + csam:gamma=2,lr=0.05", {"lr": 0.3, "momentum": 0.8})
    assert method.name == "label_smoothing + csam"
    assert method.loss.options == {"alpha": 0.05}
    assert method.optimizer.options["gamma"] == 2.0
    assert method.base is not None
    assert method.base.options["lr"] == 0.05
    assert method.base.options["momentum"] == 0.8


def test_shared_options_skip_bases_that_do_not_take_them() -> None:
    method = parse_method("sam:base=adamw", {"momentum": 0.8, "lr": 0.01})
    assert method.base is not None
    assert method.base.name == "adamw"
    assert method.base.options["lr"] == 0.01
    assert "momentum" not in method.base.options


def test_one_part_of_each_kind() -> None:
    with pytest.raises(InputError, match="at most one optimizer"):
        parse_method("sam + csam")
    with pytest.raises(OptionError, match="base to be a plain optimizer"):
        parse_method("sam:base=csam")
