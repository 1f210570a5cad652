"""Ordinary models of a table, fitted (loads scikit-learn)."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from recombine.tables.conjunctions import Array, Codes
from recombine.tables.table import Table
from recombine_papers.foresight.rivals import RIVALS

MANY = 300  # combinations from which an MLP is stopped early


def fit_rivals(table: Table, seed: int, names: tuple[str, ...] = RIVALS) -> dict[str, Any]:
    """Fit models to the measured combinations, weighted equally."""
    cells = table.cells
    models = {name: rival(name, table.shape, len(cells), seed) for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an MLP warns when it reaches max_iter
        for model in models.values():
            model.fit(cells.z, cells.y[:, 0])
    return models


def rival(name: str, shape: tuple[int, ...], rows: int, seed: int) -> Any:
    """Build one model; its settings are the same for every table."""
    codes = OneHotEncoder(categories=[np.arange(m) for m in shape], sparse_output=False)
    match name:
        case "ridge":
            pairs = PolynomialFeatures(2, interaction_only=True, include_bias=False)
            model = make_pipeline(codes, pairs, RidgeCV(np.logspace(-2, 3, 11)))
        case "forest":
            model = make_pipeline(codes, RandomForestRegressor(100, random_state=seed))
        case "boosting":
            model = HistGradientBoostingRegressor(
                categorical_features=list(range(len(shape))),
                max_iter=150,
                min_samples_leaf=5,
                early_stopping=False,
                random_state=seed,
            )
        case "knn":
            counts = [k for k in (3, 5, 10, 20) if k <= rows // 2]
            search = GridSearchCV(KNeighborsRegressor(), {"n_neighbors": counts}, cv=3)
            model = make_pipeline(codes, search)
        case _:
            network = MLPRegressor(
                hidden_layer_sizes=(128, 128),
                learning_rate_init=3e-3,
                max_iter=300,
                early_stopping=rows >= MANY,
                n_iter_no_change=20 if rows >= MANY else 300,
                random_state=seed,
            )
            model = make_pipeline(codes, network)
    if name == "boosting" or name == "forest":
        return model
    return TransformedTargetRegressor(model, transformer=StandardScaler())


def forest_deviation(model: Any, z: Codes) -> Array:
    """Standard deviation of the predictions of a forest's trees."""
    codes, forest = model
    x = codes.transform(z)
    return np.asarray(np.std([tree.predict(x) for tree in forest.estimators_], axis=0))
