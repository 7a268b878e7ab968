"""A graph network that names the group of every node from eight labels, weak features and the edges of the graph.

Two hundred nodes in two groups, with more edges inside than between. The features of one node are nearly noise; a
layer mixes it with the mean of its neighbours. Only the labelled nodes are in the loss.
"""

import numpy as np

import wholestep as ws
from wholestep import nn, optim

QUANTITY = "share of wrong groups among the nodes without a label"
BOUND = 0.05


class GraphLayer(nn.Module):
    def __init__(self, inputs, outputs, key):
        own, others = ws.random.split(ws.random.key(key), 2)
        self.own = nn.Linear(inputs, outputs, key=own)
        self.others = nn.Linear(inputs, outputs, key=others)

    def __call__(self, x, mixing):
        return self.own(x) / 10 + self.others(mixing @ x)


def loss(layers, batch):
    h = nn.relu(layers[0](batch["x"], batch["mixing"]))
    scores = layers[1](h, batch["mixing"])
    return nn.cross_entropy(scores[batch["labelled"]], batch["label"]), scores


def run():
    rng = np.random.default_rng(0)
    group = np.arange(200) % 2
    chance = np.where(group[:, None] == group, 0.12, 0.02)
    edges = np.triu(rng.uniform(size=(200, 200)) < chance, 1)
    edges = edges | edges.T | np.eye(200, dtype=bool)
    once = edges / edges.sum(1, keepdims=True)
    mixing = np.linalg.matrix_power(once, 2).astype(np.float32)  # averages over neighbours and their neighbours
    x = (rng.normal(size=(200, 16)) + 0.4 * (2 * group[:, None] - 1)).astype(np.float32)
    labelled = np.arange(8)
    batch = {"x": x, "mixing": mixing, "labelled": labelled, "label": group[labelled]}
    layers = [GraphLayer(16, 16, 0), GraphLayer(16, 2, 1)]
    step = ws.compile(loss, layers, optimizer=optim.adamw(0.01, weight_decay=0.1), batch=batch, has_aux=True)
    for _ in range(100):
        result = step(batch)
    return group, edges, result.aux


def main():
    group, _, scores = run()
    return float(np.mean(np.argmax(scores, axis=1)[8:] != group[8:]))


def picture(figure):
    group, edges, scores = run()
    axes = figure.subplots()
    second = np.linalg.eigh(edges / np.sqrt(np.outer(edges.sum(0), edges.sum(1))))[1][:, -2]  # orders nodes by group
    for k in range(2):
        axes.plot(second[group == k], np.diff(scores[group == k]), "o", alpha=0.5, label=f"group {k}")
    axes.plot(second[:8], np.diff(scores[:8]), "k*", label="labelled")
    axes.axhline(0, color="0.6", linewidth=0.8)
    axes.set(xlabel="second eigenvector of the graph", ylabel="score of 1 less that of 0", title="Every node, named")
    axes.legend()


if __name__ == "__main__":
    print(f"{main():.4f} {QUANTITY}")
