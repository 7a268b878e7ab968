"""Small tables by networks, with scikit-learn's own interface, beside gradient boosting and a linear model.

python examples/tabular.py                   # a minute or two; Ctrl-C keeps the state
python examples/tabular.py --resume          # go on after Ctrl-C
"""

import argparse
import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import wholestep as ws

TABLES = {"diabetes": load_diabetes, "breast cancer": load_breast_cancer, "wine": load_wine}

REGRESSION = {
    "wholestep": lambda: ws.WholestepRegressor(random_state=0),
    "boosting": lambda: GradientBoostingRegressor(random_state=0),
    "ridge": lambda: make_pipeline(StandardScaler(), RidgeCV(np.logspace(-3, 3, 13))),
}
CLASSIFICATION = {
    "wholestep": lambda: ws.WholestepClassifier(random_state=0),
    "boosting": lambda: GradientBoostingClassifier(random_state=0),
    "logistic": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
}


def folds(x, y, classes, count):
    """The same parts for every model; each row is held out once."""
    kind = StratifiedKFold if classes else KFold
    return kind(count, shuffle=True, random_state=0).split(x, y)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--checkpoint", type=Path, default=Path("tabular.json"))
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--curves", default="tabular.png")
    options = parser.parse_args(arguments)

    scores = json.loads(options.checkpoint.read_text()) if options.resume else {}
    figure, axes = plt.subplots(1, len(options.tables), squeeze=False, layout="constrained")
    for table, panel in zip(options.tables, axes[0], strict=True):
        x, y = TABLES[table](return_X_y=True)
        classes = table != "diabetes"
        print(f"{table}: {'accuracy' if classes else 'R2'} on held-out rows")
        for name, make in (CLASSIFICATION if classes else REGRESSION).items():
            for i, (train, test) in enumerate(folds(x, y, classes, options.folds)):
                if f"{table} {name} {i}" not in scores:
                    model = make().fit(x[train], y[train])
                    scores[f"{table} {name} {i}"] = float(model.score(x[test], y[test]))
                    options.checkpoint.write_text(json.dumps(scores, indent=1))
                    if name == "wholestep":
                        panel.semilogy(model.loss_curve_)
            found = [scores[f"{table} {name} {i}"] for i in range(options.folds)]
            print(f"  {name:<10} {np.mean(found):.3f} +- {np.std(found):.3f}", flush=True)
        panel.set(title=table, xlabel="epoch", ylabel="training loss")
    figure.savefig(options.curves)
    return scores


if __name__ == "__main__":
    main()
