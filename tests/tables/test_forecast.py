"""Expected errors of forecasts against sums by hand."""

from types import SimpleNamespace

import numpy as np

from recombine.tables.forecast import Components, Forecast
from recombine.tables.referee import Judgement


def test_the_error_of_a_vector_adds_all_squares():
    """Inside the components 3², outside 4² + 12², the referee's own 2² · 5, beyond them 7."""
    judgement = Judgement(np.zeros(1), np.full(1, 2.0), np.array([1.0, 3.0]))
    vector = SimpleNamespace(
        wrong=None,
        value=np.array([[1.0, 1, 1]]),
        judgements=(judgement,),
        basis=Components(np.zeros(3), np.array([[1.0], [0], [0]]), 7.0),
    )
    assert Forecast.error_of(vector, np.array([[4.0, 5, 13]])).tolist() == [14]
    vector.judgements = (judgement, judgement)
    assert Forecast.error_of(vector, np.array([[4.0, 5, 13]])).tolist() == [np.sqrt(216)]


def test_the_error_of_a_class_is_the_chance_that_it_is_wrong():
    one = SimpleNamespace(wrong=np.array([0.1, 0.1]), value=np.array([[2.0], [2.0]]))
    assert Forecast.error_of(one, np.array([[2.0], [1.0]])).tolist() == [0.1, 0.9]
