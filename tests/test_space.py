"""What a search may choose, as people write it."""

from __future__ import annotations

import pytest

from surefoot.errors import InputError
from surefoot.space import Choice, Interval, read_space


@pytest.mark.parametrize(
    ("text", "method", "gaps"),
    [
        ("csam:rho=0.02..0.5 log, gamma=0|1", "csam:rho={rho}, gamma={gamma}", {"rho": (0.02, 0.5, True, False)}),
        ("sam:rho = 1e-3 .. 1e+1", "sam:rho={rho}", {"rho": (0.001, 10.0, False, False)}),
        ("deep:members=2..4 + sgd", "deep:members={members} + sgd", {"members": (2.0, 4.0, False, True)}),
        ("a.b:c:alpha=.1...2", "a.b:c:alpha={alpha}", {"alpha": (0.1, 0.2, False, False)}),
        ("sgd:momentum=-1..1", "sgd:momentum={momentum}", {"momentum": (-1.0, 1.0, False, True)}),
    ],
)
def test_ranges_and_lists_become_gaps(text: str, method: str, gaps: dict[str, tuple[float, float, bool, bool]]) -> None:
    space = read_space(text)
    assert space.method == method
    assert {name: space.gaps[name] for name in gaps} == {name: Interval(*gap) for name, gap in gaps.items()}


def test_the_same_option_of_two_parts_has_two_gaps() -> None:
    space = read_space("focal:gamma=1|2 + csam:gamma=0|1|1")
    assert space.method == "focal:gamma={gamma} + csam:gamma={csam_gamma}"
    assert space.gaps == {"gamma": Choice(("1", "2")), "csam_gamma": Choice(("0", "1"))}
    assert space.settings is not None
    assert [tuple(each.values()) for each in space.settings] == [("1", "0"), ("1", "1"), ("2", "0"), ("2", "1")]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("csam", "Expected a method with ranges or lists to search in, but got 'csam'"),
        ("sam:rho=0.1..0.5log", "Expected a method with ranges or lists"),
        ("sam:rho=0.1|0.2 log", "Expected a method with ranges or lists"),
        ("sam|csam:rho=0.1..0.2", "Expected a method with ranges or lists"),
        ("sam:rho=0.5..0.1", r"Expected a range from a number to a larger one, but got 'rho=0.5..0.1'"),
        ("sam:rho=0..1 log", "Expected a range above 0 for a logarithmic scale"),
        ("sam:rho=0.1..0.2,rho=0.3..0.4,rho=1..2", "Expected one value of rho, but got two"),
    ],
)
def test_what_cannot_be_searched_is_refused(text: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        read_space(text)


def test_numbers_have_four_digits_and_stay_in_their_range() -> None:
    space = read_space("sam:rho=0.0123412..0.5,every=1..3")
    assert space.fill({"rho": 0.0123412, "every": 2}) == {"rho": 0.0123412, "every": 2}
    assert space.fill({"rho": 0.1234567, "every": 3}) == {"rho": 0.1235, "every": 3}
