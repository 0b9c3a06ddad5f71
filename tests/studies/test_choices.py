"""What tuning chose is told."""

from __future__ import annotations

from surefoot.studies.choices import choices_of

ARMS = {
    "sgd": ["sgd-1", "sgd-2"],
    "sam · rho=0.1,weight_decay=0.004": ["a-1", "a-2"],
    "sam · rho=0.2,weight_decay=0.004": ["b-1", "b-2"],
    "sam, ResNet-8 · rho=0.4": ["c-1", "c-2"],
    "sam, ResNet-8 · rho=0.8": ["d-1", "d-2"],
}


def test_the_setting_of_all_seeds_stands_among_what_was_offered() -> None:
    values = {"arms": ARMS, "shown": {"sam": ["b-1", "b-2"], "sam, ResNet-8": ["c-1", "c-2"]}}
    assert choices_of(values) == ["sam: rho=0.2 of 0.1, 0.2; weight_decay=0.004", "sam, ResNet-8: rho=0.4 of 0.4, 0.8"]


def test_a_setting_is_found_by_its_runs_where_the_arm_has_another_name() -> None:
    assert choices_of({"arms": ARMS, "shown": {"SAM": ["d-1", "d-2"]}}) == ["SAM: rho=0.8 of 0.4, 0.8"]


def test_settings_of_each_seed_are_counted() -> None:
    told = choices_of({"arms": ARMS, "shown": {"sam": ["a-1", "b-2"]}})
    assert told == ["sam: rho=0.1 (1 seed), 0.2 (1 seed) of 0.1, 0.2; weight_decay=0.004"]


def test_what_was_not_tuned_has_no_line() -> None:
    assert choices_of({"arms": ARMS, "shown": None}) == []
    assert choices_of({"arms": ARMS, "shown": {"sgd": ["sgd-1", "sgd-2"]}}) == []
