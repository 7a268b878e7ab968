"""A radiance field: a network of density and colour in space, learned from the colours along rays through it."""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

NEAR, FAR, PLACES, WAVES = 1.0, 4.0, 16, 4


def seen(field, origin, direction):
    """The color of each ray: the colors of its places, weighted by their opacity and the transmittance before them."""
    depth = np.linspace(NEAR, FAR, PLACES).astype(np.float32)
    point = origin[:, None] + depth[:, None] * direction[:, None]
    found = field(waves(point).reshape(-1, 6 * WAVES)).reshape(*point.shape[:2], 4)
    passed = nn.softplus(found[..., 0]) * np.float32((FAR - NEAR) / PLACES)
    through = np.exp(-(np.cumsum(passed, axis=1) - passed))
    weight = through * (1 - np.exp(-passed))
    return np.sum(weight[..., None] * nn.sigmoid(found[..., 1:]), axis=1)


def waves(point):
    scaled = point[..., None] * (2.0 ** np.arange(WAVES)).astype(np.float32)
    return np.concatenate([np.sin(scaled), np.cos(scaled)], axis=-1)


def loss(field, batch):
    return np.mean((seen(field, batch["origin"], batch["direction"]) - batch["colour"]) ** 2)


def ray(field, given):
    return seen(field, given["origin"].reshape(1, 3), given["direction"].reshape(1, 3))[0]


def colour_of(origin, direction):
    """Two balls, a red one and a blue one, in the dark: the first that a ray meets, brighter from above."""
    found, first = np.zeros_like(origin), np.full(len(origin), np.inf)
    for centre, radius, colour in (([0.4, 0, 0], 0.6, [0.9, 0.2, 0.1]), ([-0.6, 0.3, -0.2], 0.4, [0.1, 0.3, 0.9])):
        towards = origin - centre
        b = np.sum(towards * direction, axis=1)
        inside = b**2 - np.sum(towards**2, axis=1) + radius**2
        far = np.where(inside > 0, -b - np.sqrt(np.maximum(inside, 0)), np.inf)
        up = np.where(np.isfinite(far), (origin[:, 1] + np.where(np.isfinite(far), far, 0) * direction[:, 1]), 0)
        light = 0.6 + 0.4 * np.clip((up - centre[1]) / radius, -1, 1)
        found = np.where((far < first)[:, None], light[:, None] * np.array(colour), found)
        first = np.minimum(first, far)
    return found


rng = np.random.default_rng(0)
turn, aside = rng.uniform(0, 2 * np.pi, 8192), rng.uniform(-1, 1, (8192, 3))
origin = np.stack([2.5 * np.sin(turn), rng.uniform(-0.5, 1, 8192), 2.5 * np.cos(turn)], axis=1)
direction = aside - origin
direction /= np.linalg.norm(direction, axis=1, keepdims=True)
rays = {"origin": origin, "direction": direction, "colour": colour_of(origin, direction)}
data = {name: rows.astype(np.float32) for name, rows in rays.items()}
batch = {name: rows[:128] for name, rows in data.items()}

field = nn.Sequential(
    nn.Linear(6 * WAVES, 64, key=0), nn.relu, nn.Linear(64, 64, key=1), nn.relu, nn.Linear(64, 4, key=2)
)
step = ws.compile(loss, field, optimizer=optim.adam(2e-3), batch=batch)
one = ws.ShapeDtype((3,), np.float32)
attach = {"ray": step.attach(ray, batch={"origin": one, "direction": one})}
