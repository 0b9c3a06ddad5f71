"""The controller on a made response, whose true over-confidence is known, and on rows that tell nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

import surefoot as sf
from surefoot.errors import InputError, SplitError
from surefoot.optim import ASAM, GSAM, LookSAM, SharpnessAware
from surefoot.steering import KeepCalibrated, Signal, signal_of

ROWS = 2000


def made_rows(log_temperature: float, n: int = ROWS, seed: int = 0, classes: int = 10) -> tuple[Tensor, Tensor]:
    """Draw rows whose labels follow the softmax of their logits; then make the logits e^log T times as sure."""
    draws = torch.Generator().manual_seed(seed)
    z = 2 * torch.randn(n, classes, generator=draws)
    labels = torch.multinomial(z.softmax(1), 1, generator=draws).squeeze(1)
    return z * math.exp(log_temperature), labels


def csam(rho: float = 0.1, gamma: float = 1.0, **options: object) -> sf.CSAM:
    model = nn.Linear(3, 2)
    return sf.CSAM(SGD(model.parameters(), lr=0.1), model, rho=rho, gamma=gamma, **options)


class Plant:
    """A training whose over-confidence is drift − b_ρ log(ρ/0.1) − b_γ (γ − 1), reached with a lag."""

    def __init__(self, b_rho: float, b_gamma: float, drift: Callable[[int], float], lag: float = 0.3) -> None:
        self.b_rho, self.b_gamma, self.drift, self.lag = b_rho, b_gamma, drift, lag
        self.state = drift(0)

    def epoch(self, t: int, rho: float, gamma: float) -> float:
        aim = self.drift(t) - self.b_rho * math.log(rho / 0.1) - self.b_gamma * (gamma - 1)
        self.state = self.lag * self.state + (1 - self.lag) * aim
        return self.state


def run(
    plant: Plant, epochs: int = 40, rows: int = ROWS, *, fresh: bool = True, **start: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Steer a plant, by fresh rows at every look or always the same; return log T, ρ and γ epoch by epoch."""
    optimizer = csam(**start)
    keeper = KeepCalibrated(optimizer)
    seen = []
    for t in range(epochs):
        true = plant.epoch(t, optimizer.param_groups[0]["rho"], optimizer.outer.gamma)
        keeper.step(*made_rows(true, rows, seed=t if fresh else 0))
        seen.append((true, optimizer.param_groups[0]["rho"], optimizer.outer.gamma))
    return tuple(np.array(seen).T)  # type: ignore[return-value]


# From what was measured on real networks: a weak response, a usual one, and one that ρ alone has, and strongly.
RESPONSES = [(0.15, 0.1), (0.3, 0.1), (0.35, 0.01), (1.0, 0.1)]


@pytest.mark.parametrize(("b_rho", "b_gamma"), RESPONSES)
def test_it_converges_whatever_the_response(b_rho: float, b_gamma: float) -> None:
    true, _, _ = run(Plant(b_rho, b_gamma, lambda t: 0.6))
    assert abs(true[0]) > 0.3
    assert np.abs(true[-10:]).mean() < 0.06


@pytest.mark.parametrize(("b_rho", "b_gamma"), RESPONSES)
def test_it_does_not_oscillate(b_rho: float, b_gamma: float) -> None:
    true, rho, _ = run(Plant(b_rho, b_gamma, lambda t: 0.6), epochs=60)
    assert true.min() > -0.12  # no overshoot beyond noise
    assert np.abs(np.diff(np.log(rho[-20:]))).max() < 0.08  # and the knobs rest


def test_it_follows_a_drift_with_a_small_lag() -> None:
    """Over-confidence that grows along training, as it does: a ramp leaves an error of slope / loop gain, no more."""
    true, _, gamma = run(Plant(0.15, 0.1, lambda t: 0.9 * t / 40))
    assert np.abs(true[5:]).max() < 0.15
    assert gamma[-1] > gamma[0]


def test_it_comes_from_a_bad_start() -> None:
    true, rho, gamma = run(Plant(0.3, 0.1, lambda t: 0.6), rho=0.02, gamma=0.0)
    good, _, _ = run(Plant(0.3, 0.1, lambda t: 0.6))
    assert np.abs(true[-10:]).mean() < 0.06
    assert abs(np.abs(true[-10:]).mean() - np.abs(good[-10:]).mean()) < 0.03
    assert rho[-1] > 0.02
    assert gamma[-1] > 0


def test_it_lets_go_of_a_network_that_is_not_sure_enough() -> None:
    _, rho, gamma = run(Plant(0.1, 0.05, lambda t: -0.4), fresh=False)
    assert rho[-1] == pytest.approx(0.1 / 8)
    assert gamma[-1] == 0


def test_it_does_not_wind_up() -> None:
    """Thirty epochs against both limits, then the over-confidence is gone: the knobs leave their limits at once."""
    _, rho, gamma = run(Plant(0.05, 0.01, lambda t: 2.0 if t < 30 else -0.5, lag=0.0), fresh=False)
    assert rho[29] == pytest.approx(0.4)
    assert gamma[29] == 8.0
    assert rho[30] < 0.3
    assert gamma[30] < 7


def test_noise_is_not_followed() -> None:
    """Calibrated rows: what 500 of them say by chance moves the knobs little, and what 10,000 say even less."""
    moves = {}
    for rows in (500, 10_000):
        _, rho, _ = run(Plant(0.3, 0.1, lambda t: 0.0), rows=rows)
        moves[rows] = np.abs(np.log(rho / 0.1)).max()
    assert moves[500] < 0.3
    assert moves[10_000] < 0.1


def test_rows_that_are_not_finite_move_nothing() -> None:
    optimizer = csam()
    keeper = KeepCalibrated(optimizer)
    logits, labels = made_rows(0.5)
    keeper.step(logits, labels)
    kept = optimizer.param_groups[0]["rho"], optimizer.outer.gamma, keeper.state_dict()["lowest"]
    for bad in (math.nan, math.inf, -math.inf):
        broken = logits.clone()
        broken[7, 3] = bad
        facts = keeper.step(broken, labels)
        assert not facts.signal.is_known
        assert str(facts) == "2,000 rows tell nothing: all as it was"
    assert (optimizer.param_groups[0]["rho"], optimizer.outer.gamma, keeper.state_dict()["lowest"]) == kept
    assert keeper.step(logits, labels).push > 0  # and it goes on afterwards
    assert keeper.looks == 5


@pytest.mark.parametrize("n", [0, 1])
def test_too_few_rows_move_nothing(n: int) -> None:
    keeper = KeepCalibrated(csam())
    facts = keeper.step(*(rows[:n] for rows in made_rows(0.5)))
    assert facts.push == 0
    assert facts.before == facts.after == {"rho": 0.1, "gamma": 1.0}


def test_rows_that_are_all_right_move_nothing() -> None:
    """The best temperature is then 0, which is a matter of too few rows."""
    logits = torch.eye(4).repeat(20, 1) * 3
    facts = KeepCalibrated(csam()).step(logits, logits.argmax(1))
    assert facts.push == 0


def test_one_look_reacts_to_so_much_at_most() -> None:
    facts = KeepCalibrated(csam()).step(*made_rows(3.0))
    assert facts.signal.log_temperature == pytest.approx(3.0, abs=0.1)
    assert facts.push == 0.5
    assert facts.after == {"rho": pytest.approx(0.1 * math.exp(0.5)), "gamma": 3.0}


def harder(log_temperature: float) -> tuple[Tensor, Tensor]:
    """Draw rows a third of whose labels are anything."""
    logits, labels = made_rows(log_temperature)
    labels[: ROWS // 3] = torch.randint(10, (ROWS // 3,), generator=torch.Generator().manual_seed(1))
    return logits, labels


def test_calibration_is_not_bought_with_what_no_temperature_repairs() -> None:
    """Rows become harder and stay over-confident: ρ is held, γ goes on."""
    optimizer = csam()
    keeper = KeepCalibrated(optimizer)
    keeper.step(*made_rows(0.3))
    rho, gamma = optimizer.param_groups[0]["rho"], optimizer.outer.gamma
    facts = keeper.step(*harder(0.3))
    assert facts.push > 0
    assert facts.restraint == 0
    assert optimizer.param_groups[0]["rho"] == rho
    assert optimizer.outer.gamma > gamma


def test_a_network_that_learns_noise_by_heart_gets_more_radius() -> None:
    """Rows become harder and are not sure enough: ρ goes up, although calibration alone asks for less."""
    optimizer = csam()
    keeper = KeepCalibrated(optimizer)
    keeper.step(*made_rows(-1.5))
    rho = optimizer.param_groups[0]["rho"]
    facts = keeper.step(*harder(-1.5))
    assert facts.push < 0
    assert facts.restraint == -1
    assert optimizer.param_groups[0]["rho"] > rho


def test_what_was_once_better_is_forgotten() -> None:
    keeper = KeepCalibrated(csam())
    keeper.step(*made_rows(0.3))
    restraints = [keeper.step(*harder(0.3)).restraint for _ in range(60)]
    assert restraints[0] == 0
    assert restraints[-1] > 0.5


def constant(scale: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw rows of two classes, alike but for noise that has nothing to do with their labels."""
    draws = torch.Generator().manual_seed(seed)
    return scale * torch.randn(ROWS, 2, generator=draws), torch.randint(2, (ROWS,), generator=draws)


@pytest.mark.parametrize("seed", range(5))
def test_a_network_that_answers_like_a_constant_is_let_go(seed: int) -> None:
    """It is calibrated, and has learned nothing: too large a radius may be why."""
    optimizer = csam()
    facts = KeepCalibrated(optimizer).step(*constant(0.01, seed))
    assert facts.is_idle
    assert optimizer.param_groups[0]["rho"] == pytest.approx(0.1 * math.exp(-0.5))
    assert optimizer.outer.gamma == 0
    assert "no better than a constant answer: rho 0.1 → 0.0607, gamma 1 → 0" in str(facts)


def test_a_network_that_no_longer_learns_is_let_go_too() -> None:
    """What no temperature repairs has grown worse, and yet ρ is not what to answer it with."""
    optimizer = csam()
    keeper = KeepCalibrated(optimizer)
    assert not keeper.step(*made_rows(-0.3, classes=2)).is_idle
    rho = optimizer.param_groups[0]["rho"]
    facts = keeper.step(*constant(0.01))
    assert facts.restraint == 1
    assert optimizer.param_groups[0]["rho"] < rho


def test_a_network_that_has_learned_noise_by_heart_is_not_let_go() -> None:
    """Sure, and right as often as a coin: over-confident is what it is."""
    facts = KeepCalibrated(csam()).step(*constant(5.0))
    assert facts.push > 0
    assert facts.after["rho"] > 0.1
    logits, labels = constant(5.0)
    few = KeepCalibrated(csam()).step(logits[:40], labels[:40])  # too few for how large a temperature it takes
    assert not facts.is_idle
    assert not few.is_idle


def test_the_lead_is_that_over_the_shares_of_the_classes() -> None:
    logits, labels = made_rows(0.3, classes=3)
    signal, shares = signal_of(logits, labels), labels.bincount() / ROWS
    alone = -(shares * shares.log()).sum().item()
    assert signal.lead == pytest.approx(alone - signal.refined, abs=1e-6)
    assert not signal.is_idle
    assert signal_of(*constant(0.01)).is_idle


def test_rows_too_few_to_tell_do_not_say_that_nothing_was_learned() -> None:
    """Sixty rows of a network that is hardly sure of anything: its lead is within noise, and so is much more."""
    logits, labels = made_rows(-0.5, 60, classes=2)
    signal = signal_of(0.5 * logits, labels)
    assert signal.lead < 4 * signal.lead_error
    assert not signal.is_idle


def test_the_signal_and_its_error_are_those_of_many_draws() -> None:
    """Over 300 draws of 500 rows, the mean of log T is the truth, and its spread what each one says of itself."""
    found = [signal_of(*made_rows(0.4, 500, seed)) for seed in range(300)]
    values = np.array([each.log_temperature for each in found])
    assert values.mean() == pytest.approx(0.4, abs=3 * values.std() / math.sqrt(300) + 0.005)
    assert np.mean([each.error for each in found]) == pytest.approx(values.std(), rel=0.15)
    gaps = np.array([each.gap for each in found])
    assert np.mean([each.gap_error for each in found]) == pytest.approx(gaps.std(), rel=0.15)


def test_the_signal_has_less_noise_than_the_gap() -> None:
    """In units of its own standard error, log T stands out further: it is what rows say at most about a factor."""
    for rows in (500, 2000, 10_000):
        seen = [signal_of(*made_rows(0.3, rows, seed)) for seed in range(20)]
        ours = np.mean([each.log_temperature / each.error for each in seen])
        theirs = np.mean([each.gap / each.gap_error for each in seen])
        assert ours > 1.1 * theirs


def test_every_method_with_a_radius_can_be_steered() -> None:
    model = nn.Linear(3, 2)
    for method, usual in ((sf.SAM, 0.1), (ASAM, 0.5), (LookSAM, 0.1), (GSAM, 0.1)):
        optimizer = method(SGD(model.parameters(), lr=0.1), model)
        keeper = KeepCalibrated(optimizer)
        facts = keeper.step(*made_rows(0.4))
        assert list(facts.after) == ["rho"]
        assert facts.after["rho"] > facts.before["rho"] == usual
        assert keeper.knobs[0].limits == (usual / 8, pytest.approx(4 * usual * math.sqrt(optimizer.cadence.k)))


def test_groups_keep_their_proportions_and_zero_stays() -> None:
    first, second, third = (nn.Linear(2, 2) for _ in range(3))
    groups = [
        {"params": first.parameters(), "rho": 0.2},
        {"params": second.parameters(), "rho": 0.05},
        {"params": third.parameters(), "rho": 0.0},
    ]
    optimizer = sf.CSAM(SGD(groups, lr=0.1))
    KeepCalibrated(optimizer).step(*made_rows(0.4))
    rhos = [group["rho"] for group in optimizer.param_groups]
    assert rhos[0] > 0.2
    assert rhos[1] == pytest.approx(rhos[0] / 4)
    assert rhos[2] == 0.0


def test_limits_speed_and_knobs_are_the_users() -> None:
    keeper = KeepCalibrated(csam(), knobs="gamma", limits={"gamma": (0.5, 2.0)})
    assert keeper.step(*made_rows(1.0)).after == {"gamma": 2.0}
    assert keeper.facts is not None
    assert keeper.facts.at_limit == ("gamma",)
    whole, quarter = (KeepCalibrated(csam(), speed=speed).step(*made_rows(0.3)) for speed in (1.0, 0.25))
    assert quarter.after["gamma"] - 1 == pytest.approx((whole.after["gamma"] - 1) / 4)


def test_weight_decay_and_learning_rate() -> None:
    model = nn.Linear(3, 2)
    plain = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
    facts = KeepCalibrated(plain, knobs="weight_decay").step(*made_rows(0.4))
    assert plain.param_groups[0]["weight_decay"] == facts.after["weight_decay"] > 0.1
    schedule = torch.optim.lr_scheduler.LambdaLR(plain, lambda step: 0.5)
    with pytest.raises(InputError, match="Expected the scheduler, which would undo what is done to lr"):
        KeepCalibrated(plain, knobs="lr")
    with pytest.raises(InputError, match="but got OneCycleLR, which would undo what is done to lr"):
        KeepCalibrated(
            plain, knobs="lr", schedule=torch.optim.lr_scheduler.OneCycleLR(SGD([*model.parameters()], 0.1), 1.0, 10)
        )
    keeper = KeepCalibrated(plain, knobs="lr", schedule=schedule)
    before = plain.param_groups[0]["lr"]
    facts = keeper.step(*made_rows(0.4))
    assert plain.param_groups[0]["lr"] < before
    plain.step()
    schedule.step()
    assert plain.param_groups[0]["lr"] == pytest.approx(0.5 * facts.after["lr"])


def test_what_it_remembers_goes_on_exactly() -> None:
    whole, stopped = csam(), csam()
    one, other = KeepCalibrated(whole), KeepCalibrated(stopped)
    for seed in range(3):
        one.step(*made_rows(0.3, seed=seed))
        other.step(*made_rows(0.3, seed=seed))
    resumed = csam()
    keeper = KeepCalibrated(resumed)
    resumed.load_state_dict(stopped.state_dict())
    keeper.load_state_dict(other.state_dict())
    for seed in range(3, 6):
        assert one.step(*made_rows(0.3, seed=seed)) == keeper.step(*made_rows(0.3, seed=seed))
    assert keeper.looks == one.looks == 6


def test_limits_are_remembered_whenever_the_keeper_is_made() -> None:
    """Those of the weight decay depend on what it was at first, not on what a checkpoint has made of it."""
    model = nn.Linear(3, 2)
    first = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    keeper = KeepCalibrated(first)
    keeper.step(*made_rows(0.4))
    late = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    late.load_state_dict(first.state_dict())
    made_late = KeepCalibrated(late)
    made_late.load_state_dict(keeper.state_dict())
    assert made_late.knobs[0].limits == keeper.knobs[0].limits == (pytest.approx(0.01), pytest.approx(30.0))


def test_rows_that_count_nowhere() -> None:
    logits, labels = made_rows(0.4)
    ignored = labels.clone()
    ignored[::2] = -100
    alone = KeepCalibrated(csam()).step(logits[1::2], labels[1::2])
    assert KeepCalibrated(csam()).step(logits, ignored) == alone


def test_step_from_looks_in_eval_mode_and_leaves_modes() -> None:
    model = nn.Sequential(nn.Dropout(0.9), nn.Identity())
    optimizer = csam()
    logits, labels = made_rows(0.4)
    loader = [(logits[:900], labels[:900]), (logits[900:], labels[900:])]
    facts = KeepCalibrated(optimizer).step_from(model, loader)
    assert model.training
    assert facts.signal == signal_of(logits, labels)
    named = [{"input": rows, "labels": targets} for rows, targets in loader]
    assert KeepCalibrated(csam()).step_from(model, named).signal == facts.signal
    test = torch.utils.data.TensorDataset(logits, labels)
    test.split = "test"
    with pytest.raises(SplitError, match="the loader's are of the test split"):
        KeepCalibrated(csam()).step_from(model, torch.utils.data.DataLoader(test, batch_size=100))


@pytest.mark.parametrize(
    ("logits", "labels", "text"),
    [
        (torch.zeros(4), torch.zeros(4, dtype=torch.long), "Expected logits \\(n, classes\\) and class numbers"),
        (torch.zeros(4, 1), torch.zeros(4, dtype=torch.long), "Expected logits \\(n, classes\\)"),
        (torch.zeros(4, 3), torch.zeros(3, dtype=torch.long), "Expected logits \\(n, classes\\)"),
        (torch.zeros(4, 3), torch.zeros(4), "of torch.float32. Give one row of logits per label"),
        (torch.zeros(4, 3), torch.full((4,), 3), "Expected labels in 0…2, but got 3 to 3"),
        (torch.full((4, 4), 0.25), torch.zeros(4, dtype=torch.long), "Expected logits, but got probabilities"),
    ],
)
def test_rows_that_are_something_else_are_refused(logits: Tensor, labels: Tensor, text: str) -> None:
    with pytest.raises(InputError, match=text):
        KeepCalibrated(csam()).step(logits, labels)


def test_optimizers_without_a_knob_are_refused() -> None:
    model = nn.Linear(2, 2)
    plain = SGD(model.parameters(), lr=0.1)
    with pytest.raises(InputError, match="with rho, gamma or weight_decay above 0 to steer, but SGD has none"):
        KeepCalibrated(plain)
    with pytest.raises(InputError, match="Expected an optimizer with weight_decay above 0 to steer, but SGD has none"):
        KeepCalibrated(plain, knobs="weight_decay")
    with pytest.raises(InputError, match="with gamma above 0 to steer, but SAM has none"):
        KeepCalibrated(sf.SAM(plain, model), knobs=["rho", "gamma"])
    with pytest.raises(InputError, match="knobs among rho, gamma, weight_decay, lr, or auto, but got 'momentum'"):
        KeepCalibrated(sf.SAM(plain, model), knobs="momentum")
    with pytest.raises(InputError, match="Expected an optimizer, but got a Linear"):
        KeepCalibrated(model)
    with pytest.raises(InputError, match="Expected speed > 0, but got 0"):
        KeepCalibrated(csam(), speed=0)
    with pytest.raises(InputError, match="Expected limits 0 ≤ low < high of gamma, but got 3 and 1"):
        KeepCalibrated(csam(), limits={"gamma": (3, 1)})


def test_a_plain_optimizer_is_steered_by_its_weight_decay() -> None:
    model = nn.Linear(3, 2)
    groups = [{"params": [model.weight], "weight_decay": 0.1}, {"params": [model.bias], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    facts = KeepCalibrated(optimizer).step(*made_rows(0.4))
    assert list(facts.after) == ["weight_decay"]
    assert optimizer.param_groups[0]["weight_decay"] > 0.1
    assert optimizer.param_groups[1]["weight_decay"] == 0


def test_a_method_that_never_climbs_is_steered_by_its_damping_alone() -> None:
    keeper = KeepCalibrated(csam(every=0))
    assert [knob.name for knob in keeper.knobs] == ["gamma"]


def test_facts_say_what_was_done() -> None:
    facts = KeepCalibrated(csam()).step(*made_rows(-0.3))
    assert "under-confident: rho 0.1 → " in str(facts)
    assert facts.to_json()["steering/rho"] == facts.after["rho"]
    assert set(facts.to_json()) >= {"steering/log_temperature", "steering/error", "steering/gap", "steering/gamma"}
    calm = KeepCalibrated(csam()).step(*made_rows(0.0, 200))
    assert "calibrated, up to noise: rho 0.1, gamma 1" in str(calm)


def test_the_signal_knows_nothing_by_default() -> None:
    assert not Signal().is_known
    assert isinstance(csam(), SharpnessAware)
