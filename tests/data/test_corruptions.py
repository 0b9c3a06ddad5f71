"""Every corruption: published strengths, determinism, shapes, and slow twins where there is a closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from surefoot.data.corruptions import corrupt, read_corruptions
from surefoot.data.corruptions._gather import streak
from surefoot.data.fashion import fashion
from surefoot.errors import InputError, UnknownNameError
from surefoot.registry import CORRUPTIONS
from tests.oracles import corruptions as slow

NAMES = read_corruptions("all")
N_ZOOMS = tuple(len(np.arange(1, stop, 0.01)) for stop in (1.06, 1.11, 1.16, 1.21, 1.26))
PUBLISHED = {
    "gaussian_noise": (0.04, 0.06, 0.08, 0.09, 0.10),
    "shot_noise": (500, 250, 100, 75, 50),
    "impulse_noise": (0.01, 0.02, 0.03, 0.05, 0.07),
    "speckle_noise": (0.06, 0.1, 0.12, 0.16, 0.2),
    "gaussian_blur": (0.4, 0.6, 0.7, 0.8, 1),
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),
    "zoom_blur": N_ZOOMS,
    "frost": ((1, 0.2), (1, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),
    "brightness": (0.05, 0.1, 0.15, 0.2, 0.3),
    "contrast": (0.75, 0.5, 0.4, 0.3, 0.15),
    "pixelate": (0.95, 0.9, 0.85, 0.75, 0.65),
    "jpeg_compression": (80, 65, 58, 50, 40),
    "saturate": ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2)),
}
# Where the published strengths do not grow: the step from this severity to the next may change pictures less. Elastic
# displacements get smaller while they get rougher, frost dims the picture while it adds light, motion blur has the same
# taps (but for weights below 1e-9) at 3 and 4, glass blur and saturation change direction, spatter turns into mud.
WEAKER_AFTER = {
    "saturate": {2},
    "elastic_transform": {1, 2, 3, 4},
    "glass_blur": {2, 4},
    "spatter": {3},
    "frost": {3, 4},
    "motion_blur": {3},
}


def draws(seed: int = 3) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def pictures(n: int = 4, side: int = 32, channels: int = 3) -> Tensor:
    """Smooth coloured blobs with an edge: not noise, so that blurring and compressing them means something."""
    at = torch.linspace(0, 3, side)
    rows, columns = at[:, None], at
    waves = [
        torch.sin((1 + i) * rows + c) * torch.cos((2 + c) * columns - i) + (rows > columns + 0.2 * i)
        for i in range(n)
        for c in range(channels)
    ]
    stacked = torch.stack(waves).view(n, channels, side, side)
    return ((stacked + 1) / 3 * 255).clamp(0, 255).to(torch.uint8)


def fashion_pixels(n: int) -> Tensor:
    splits = fashion()
    assert splits.scaling is not None
    return splits.scaling.to_pixels(splits.test.inputs[:n]).to(torch.uint8)


def test_there_are_fifteen_and_four() -> None:
    assert len(read_corruptions("main")) == 15
    assert set(read_corruptions("extra")) == {"speckle_noise", "gaussian_blur", "spatter", "saturate"}
    assert read_corruptions("noise") == ("gaussian_noise", "shot_noise", "impulse_noise")


@pytest.mark.parametrize("name", PUBLISHED)
def test_strengths_are_the_published_ones(name: str) -> None:
    assert CORRUPTIONS[name].facts["severities"] == PUBLISHED[name]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("channels", "side"), [(1, 28), (3, 32), (1, 6)])
def test_contract(name: str, channels: int, side: int) -> None:
    pixels = pictures(3, side, channels)
    before = pixels.clone()
    for severity in (1, 3, 5):
        made = corrupt(pixels, name, severity, draws())
        assert made.shape == pixels.shape
        assert made.dtype == torch.uint8
        assert torch.equal(made, corrupt(pixels, name, severity, draws()))
        again = corrupt(pixels.double() / 255, name, severity, draws())
        assert again.dtype == torch.float64
        assert ((again * 255).round() - made).abs().max() <= 1
    assert torch.equal(pixels, before)


@pytest.mark.parametrize(
    "name",
    sorted(
        {part.name for part in CORRUPTIONS}
        - {
            *("defocus_blur", "zoom_blur", "gaussian_blur", "brightness", "contrast", "saturate", "pixelate"),
            "jpeg_compression",
        }
    ),
)
def test_random_ones_follow_the_generator(name: str) -> None:
    pixels = pictures()
    assert not torch.equal(corrupt(pixels, name, 5, draws(1)), corrupt(pixels, name, 5, draws(2)))


@pytest.mark.parametrize("name", NAMES)
def test_change_grows_with_severity_where_the_published_strengths_do(name: str) -> None:
    pixels = pictures(24)
    change = [
        (corrupt(pixels, name, severity, draws()).float() - pixels).abs().mean().item() for severity in range(1, 6)
    ]
    assert min(change) > 0
    shrinks = {severity for severity in range(1, 5) if change[severity] <= change[severity - 1]}
    assert shrinks <= WEAKER_AFTER.get(name, set()), change


@pytest.mark.parametrize("bad", [0, 6, -1])
def test_other_severities_are_refused(bad: int) -> None:
    with pytest.raises(InputError, match=f"severity from 1 to 5, but got {bad}"):
        corrupt(pictures(1), "fog", bad, draws())


def test_other_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="Only pictures can be corrupted"):
        corrupt(torch.zeros(3, 36), "fog", 1, draws())
    with pytest.raises(InputError, match=r"floats in \[0, 1\], but got torch.float32 from 0 to 255"):
        corrupt(torch.tensor([0.0, 255.0]).view(1, 1, 1, 2), "fog", 1, draws())
    with pytest.raises(UnknownNameError, match="Did you mean 'fog'"):
        read_corruptions("fgo")
    with pytest.raises(InputError, match="Expected names of corruptions"):
        read_corruptions(" , ")


def test_reference_vectors() -> None:
    grey = torch.tensor([0.2, 0.4, 0.9], dtype=torch.float64).view(1, 1, 1, 3)
    made = CORRUPTIONS["contrast"].build(grey, 0.5, draws())
    assert made.flatten().tolist() == pytest.approx([0.35, 0.45, 0.7])
    line = torch.zeros(1, 1, 1, 30)
    line[..., 15] = 1
    taps = streak(line, torch.zeros(1), 6, 1.0)[0, 0, 0, 12:16].flip(0)
    assert taps.tolist() == pytest.approx([0.570348, 0.345934, 0.077188, 0.006336], abs=0.5 / 255)


def _fog_draws(n: int, size: int) -> list[np.ndarray]:
    source, found, step = draws(), [], size
    while step >= 2:
        sides = size // step
        found += [(torch.rand(n, sides, sides, generator=source, dtype=torch.float64) * 2 - 1).numpy() for _ in "abc"]
        step //= 2
    return found


Twin = Callable[[np.ndarray, int, int], np.ndarray]  # picture, its number, severity
N = 2


def _normal(shape: tuple[int, ...]) -> np.ndarray:
    return torch.randn(shape, generator=draws()).permute(0, 2, 3, 1).numpy()


def _impulse(image: np.ndarray, k: int, c: float) -> np.ndarray:
    source = draws()
    hit, salt = (torch.rand(N, 3, 16, 16, generator=source).permute(0, 2, 3, 1).numpy()[k] for _ in range(2))
    return np.where(hit < c, (salt < 0.5).astype(float), image)


def _glass(image: np.ndarray, k: int, c: tuple[float, int, int]) -> np.ndarray:
    source = draws()
    image = np.floor(slow.gaussian_blur(image, c[0]) * 255 + 1e-3) / 255
    for _ in range(c[2]):
        right, down = (torch.randint(-1, 1, (N, 16, 16), generator=source).numpy()[k] for _ in range(2))
        image = slow.glass_shuffle(image, right, down)
    return slow.gaussian_blur(image, c[0])


def _snow(image: np.ndarray, k: int, c: tuple[float, ...]) -> np.ndarray:
    source = draws()
    layer = torch.randn(N, 1, 16, 16, generator=source)[k, 0].double().numpy()
    return slow.snow(image, c, layer, (torch.rand(N, generator=source) * 90 - 135)[k].item())


def _elastic(image: np.ndarray, k: int, c: tuple[float, float, float]) -> np.ndarray:
    source = draws()
    moves = torch.rand(N, 3, 2, generator=source, dtype=torch.float64)[k].numpy() * 2 - 1
    right, down = torch.rand(2, N, 16, 16, generator=source)[:, k].double().numpy() * 2 - 1
    return slow.elastic(image, c, moves, right, down)


def _spatter(image: np.ndarray, k: int, c: tuple[float, ...]) -> np.ndarray:
    return slow.spatter(image, c, torch.randn(N, 16, 16, generator=draws())[k].double().numpy())


# Rounding to bytes in between: float32 and float64 fall on different sides of a tie now and then.
TIES = {"glass_blur": 0.03}  # share of values that may be off; elsewhere 1 %
STEPS = {"glass_blur": 1.01 / 255, "motion_blur": 1.01 / 255}  # by how much
TWINS: dict[str, Callable[[np.ndarray, int, object], np.ndarray]] = {
    "gaussian_noise": lambda x, k, c: x + c * _normal((N, 3, 16, 16))[k],
    "speckle_noise": lambda x, k, c: x + c * x * _normal((N, 3, 16, 16))[k],
    "impulse_noise": _impulse,
    "gaussian_blur": lambda x, k, c: slow.gaussian_blur(x, c),
    "defocus_blur": lambda x, k, c: slow.defocus_blur(x, *c),
    "glass_blur": _glass,
    "motion_blur": lambda x, k, c: slow.motion_blur(x, *c, (torch.rand(N, generator=draws()) * 90 - 45)[k].item()),
    "zoom_blur": lambda x, k, c: slow.zoom_blur(x, dict(zip(N_ZOOMS, (1.06, 1.11, 1.16, 1.21, 1.26), strict=True))[c]),
    "snow": _snow,
    "elastic_transform": _elastic,
    "spatter": _spatter,
    "fog": lambda x, k, c: slow.fog(x, *c, [each[k] for each in _fog_draws(N, 16)]),
    "contrast": lambda x, k, c: slow.contrast(x, c),
    "brightness": lambda x, k, c: slow.brightness(x, c),
    "saturate": lambda x, k, c: slow.saturate(x, *c),
    "pixelate": lambda x, k, c: slow.pixelate(x, c),
}


@pytest.mark.parametrize("name", TWINS)
def test_slow_twins_agree(name: str) -> None:
    """The values agree before they are truncated to bytes; rounding in between may move one byte at a tie."""
    pixels = pictures(N, 16)
    x = pixels.float() / 255
    for severity in (1, 2, 3, 4, 5):
        c = CORRUPTIONS[name].facts["severities"][severity - 1]
        made = CORRUPTIONS[name].build(x, c, draws()).permute(0, 2, 3, 1).numpy()
        for k in range(N):
            expected = TWINS[name](pixels[k].permute(1, 2, 0).double().numpy() / 255, k, c)
            off = np.abs(made[k] - expected)
            assert off.max() <= STEPS.get(name, 1e-5)
            assert np.mean(off > 1e-5) < TIES.get(name, 0.01)


def test_shot_noise_has_the_mean_and_variance_of_poisson() -> None:
    flat = torch.full((1, 1, 200, 200), 0.5)
    made = CORRUPTIONS["shot_noise"].build(flat, 50, draws())
    assert made.mean().item() == pytest.approx(0.5, abs=0.003)
    assert made.var().item() == pytest.approx(0.5 / 50, rel=0.05)


def test_jpeg_is_close_to_pillow() -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    import io

    for pixels in (pictures(), fashion_pixels(6)):
        for severity, quality in enumerate((80, 65, 58, 50, 40), 1):
            made = corrupt(pixels, "jpeg_compression", severity, draws()).permute(0, 2, 3, 1).squeeze(-1).numpy()
            for ours, clean in zip(made, pixels.permute(0, 2, 3, 1).squeeze(-1).numpy(), strict=True):
                buffer = io.BytesIO()
                image.fromarray(clean).save(buffer, "JPEG", quality=quality)
                theirs = np.asarray(image.open(buffer)).astype(int)
                assert np.abs(ours - theirs).mean() < 0.5
                assert np.mean(np.abs(ours - theirs) > 2) < 0.05
