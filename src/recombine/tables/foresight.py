"""Certify, forecast and plan: the functions that answer questions about a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from recombine.base.error import Refused
from recombine.base.show import shown
from recombine.tables import certify as certificates
from recombine.tables import forecast as forecasts
from recombine.tables import plan as plans
from recombine.tables.answers import ANSWERS, Answers
from recombine.tables.lists import aligned, combinations_of, costs_of, forbidden_of
from recombine.tables.query import predictions_of
from recombine.tables.table import Table, generator

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@shown
@dataclass(frozen=True, eq=False)
class Foresight(Answers):
    """Answers about the queried combinations of a table; parts not requested are `None`.

    Print it for sentences; `.table` is a dataframe with one row per queried combination.
    """

    def _repr_html_(self) -> str:
        from recombine.tables.page import fragment

        return fragment(self)

    def to_html(self) -> str:
        """Write a self-contained page in the design of the report."""
        from recombine.tables.page import page

        return page(self)

    def plot(self, rows: str | None = None, columns: str | None = None) -> Figure:
        """Heat maps over pairs of factors: measured cells outlined, unknown ones hatched."""
        from recombine.tables.maps import heat_maps

        return heat_maps(self, rows, columns)


def certify(
    table: Table | Foresight, order: int = 1, wanted: Any = None, *, seed: int = 0
) -> Foresight:
    """Tell which combinations a table determines: `print(certify(table, order=2))`.

    - order: the conjunction order: how many factors one term of the law may combine
    - wanted: the queries (a file, a dataframe or rows of level names); all unmeasured
      combinations by default
    """
    source = table.source if isinstance(table, Foresight) else table
    if not isinstance(source, Table):
        raise Refused(
            f"certify(), forecast() and plan() take a table that read() made; got "
            f"{type(source).__name__}. Read it first, as in rc.read('data.csv', target='y')."
        )
    if clash := sorted(set(source.columns) & ANSWERS):
        raise Refused(
            f"The factor {clash[0]!r} is called like a column of the answers; rename it, for "
            f"instance {clash[0]}_."
        )
    generator(seed)
    queries = None if wanted is None else combinations_of(source, wanted)
    return Foresight(source, certificates.certify(source, order, queries, seed=seed))


def _certified(table: Table | Foresight, order: int | None, wanted: Any, seed: int) -> Foresight:
    """Certify a table; reuse the certificate of an answer if order and queries are the same."""
    if not isinstance(table, Foresight) or wanted is not None:
        return certify(table, 1 if order is None else order, wanted, seed=seed)
    if order is None or order == table.certificate.order:
        return table
    certificate = certificates.certify(table.source, order, table.queries, seed=seed)
    return replace(table, certificate=certificate, plan=None)


def forecast(
    table: Table | Foresight,
    model: Any = None,
    *,
    predictions: Any = None,
    tolerance: str | float = "0.5sd",
    network: str | None = "relu3",
    order: int | None = None,
    wanted: Any = None,
    seed: int = 0,
) -> Foresight:
    """Tell what to expect at unmeasured combinations, and where a model will fail.

    - model: the model to judge: a function of a dataframe of levels, a scikit-learn estimator or a
      torch module
    - predictions: its predictions instead: a file or dataframe with the factor columns and one
      more column, or a list in the order of the queries
    - tolerance: the largest acceptable error: `0.5sd`, or a number in units of the target; for
      classes, the chance of a wrong one (0.05 by default)
    - network: the kind of network whose answers are forecast, or `measured`
    - order: of the certificate; 1 by default, or that of the answer passed as `table`
    - wanted: the queries; all unmeasured combinations by default
    """
    if model is not None and predictions is not None:
        raise Refused("forecast() takes a model or predictions; give one of them.")
    answered = model is not None or predictions is not None
    forecasts.check_options(tolerance, network or "", answered=answered)
    base = _certified(table, order, wanted, seed)
    source, queries = base.source, base.queries
    if source.y is None:
        raise Refused("A forecast needs a target; name its column with --target.")
    if base.already_measured.all():
        which = "wanted combination" if len(queries) else "combination"
        raise Refused(f"Every {which} was measured; there is nothing to forecast.")
    answers = None if predictions is None else aligned(source, queries, predictions)
    if model is not None:
        answers = predictions_of(model, source, queries)
    result = base.forecast
    if result is None or result.options != (str(tolerance), seed):
        result = forecasts.forecast(source, queries, within=tolerance, network="", seed=seed)
    if answers is not None:
        result = forecasts.with_predictions(result, answers)
    if network:
        result = forecasts.with_network(result, network)
    return replace(base, forecast=result)


def plan(
    table: Table | Foresight,
    budget: float,
    *,
    objective: str = "auto",
    cost: Any = None,
    forbid: Any = None,
    order: int | None = None,
    wanted: Any = None,
    tolerance: str | float = "0.5sd",
    seed: int = 0,
) -> Foresight:
    """Tell what to measure next.

    - budget: the number of combinations to measure, or the amount to spend if they have costs
    - objective: `determined` (the most combinations), `error` (the lowest expected error) or
      `best` (a high target); `auto` is `error` if all are determined, else `determined`
    - cost: a file or dataframe with the factor columns and a cost; unlisted combinations cost 1
    - forbid: combinations that cannot be measured; if it names only some factors, all combinations
      with these levels
    - order: of the certificate; 1 by default, or that of the answer passed as `table`
    - wanted: combinations to choose from; all unmeasured ones by default
    """
    plans.check(budget, objective)
    forecasts.tolerance(tolerance)
    base = _certified(table, order, wanted, seed)
    source = base.source
    if not len(base.queries):
        raise Refused("Every combination was measured; there is nothing left to measure.")
    if objective == "auto":
        objective = "error" if base.certificate.determined.all() else "determined"
    price = None if cost is None else costs_of(source, base.queries, cost)
    forbidden = base.already_measured
    if forbid is not None:
        forbidden = forbidden | forbidden_of(source, base.queries, forbid)
    if objective in ("error", "best") and source.y is not None and base.forecast is None:
        base = forecast(base, tolerance=tolerance, network="", seed=seed)
    result = plans.plan(
        base.certificate,
        base.forecast,
        budget,
        objective=objective,
        cost=price,
        forbidden=forbidden,
        seed=seed,
    )
    return replace(base, plan=result)
