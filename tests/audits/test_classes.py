"""Which class each output of a model stands for: stated, or refused."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from recombine import Refused, audit
from recombine.audits.classes import ordered
from recombine.tables.read import read

Z = np.array([(a, b) for a in range(6) for b in range(5)])
TRAIN = (Z.sum(axis=1) % 3 > 0) | (Z == 0).any(axis=1)
LABELS = ["red", "green", "blue"]  # not sorted
NUMBER = (Z[:, 0] + Z[:, 1]) % 3
FACTORS = {"a": Z[:, 0], "b": Z[:, 1]}
SCORES = np.eye(3)[NUMBER]  # right everywhere, in the order of LABELS


def error(model, targets, **options):
    answer = audit(model, FACTORS, targets=targets, train=TRAIN, budget=0, **options)
    return answer.overall["unseen"][0]


def test_scores_of_named_classes_need_their_order():
    """In sorted order, this model without errors would be wrong most of the time."""
    names = np.array(LABELS)[NUMBER]
    assert error(SCORES, names, classes=LABELS) == 0
    assert error(SCORES, names, classes=sorted(LABELS)) > 0.5
    for model in (SCORES, lambda x: torch.tensor(SCORES)):
        with pytest.raises(Refused, match=r"which class each score stands for; list the classes"):
            error(model, names, inputs=Z)
    with pytest.raises(Refused, match=r"which class each number stands for"):
        error(NUMBER, names)
    assert error(NUMBER, names, classes=LABELS) == 0
    assert error(names, names) == 0  # names need no order


@pytest.mark.parametrize("kind", [tuple, np.array, pd.Series, pd.Categorical])
def test_classes_may_be_any_sequence(kind):
    assert error(SCORES, np.array(LABELS)[NUMBER], classes=kind(LABELS)) == 0


def test_whole_numbers_from_zero_and_truth_values_stand_for_themselves():
    assert error(SCORES, NUMBER) == 0
    assert error(SCORES, NUMBER.astype(float), classes=True) == 0
    two = np.eye(2)[(NUMBER == 0) * 1]
    assert error(two, NUMBER == 0) == 0
    with pytest.raises(Refused, match="which class each score"):
        error(SCORES, NUMBER + 1)
    assert error(SCORES, NUMBER + 1, classes=[1, 2, 3]) == 0
    assert error(SCORES[:, ::-1], NUMBER + 1, classes=[3.0, 2.0, 1.0]) == 0


def test_more_than_ten_numbered_classes_are_not_sorted_as_text():
    z = np.array([(a, b) for a in range(12) for b in range(4)])
    data = {"a": z[:, 0], "b": z[:, 1], "y": z[:, 0]}
    train = (z.sum(axis=1) % 3 > 0) | (z == 0).any(axis=1)
    model = np.eye(12)[z[:, 0]]
    answer = audit(model, data, target="y", train=train, classes=True, budget=0)
    assert answer.overall["unseen"][0] == 0


def test_classes_without_a_row_are_listed():
    scores = np.concatenate([SCORES, np.zeros((len(Z), 1))], axis=1)
    names = np.array(LABELS)[NUMBER]
    assert error(scores, names, classes=[*LABELS, "black"]) == 0
    with pytest.raises(Refused, match=r"4 numbers per row; 3 classes.*List classes without a row"):
        error(scores, NUMBER)
    assert error(scores, NUMBER, classes=range(4)) == 0


def test_a_fitted_estimator_and_a_table_state_the_order():
    names = np.array(LABELS)[NUMBER]
    model = SimpleNamespace(predict=lambda x: SCORES, classes_=np.array(LABELS))
    assert error(model, names, inputs=Z) == 0
    unrelated = SimpleNamespace(predict=lambda x: SCORES, classes_=np.arange(3))
    with pytest.raises(Refused, match="which class each score"):
        error(unrelated, names, inputs=Z)
    table = read(FACTORS | {"y": names}, ["a", "b"], "y")
    at = [LABELS.index(name) for name in table.classes]
    answer = audit(SCORES[:, at], table, train=TRAIN, budget=0)
    assert answer.overall["unseen"][0] == 0


def test_the_order_of_classes_changes_only_their_numbers():
    names = np.array(LABELS)[NUMBER]
    guess = np.where(TRAIN, names, np.roll(names, 1))
    data = FACTORS | {"y": names}
    plain = audit(guess, data, target="y", train=TRAIN, budget=0)
    other = audit(guess, data, target="y", train=TRAIN, classes=LABELS, budget=0)
    assert other.sample.table.classes == tuple(LABELS)
    assert other.overall == plain.overall
    assert other.evidence.numbers() == pytest.approx(plain.evidence.numbers())


def test_truth_values_of_a_column_are_listed_as_python_writes_them():
    table = read(FACTORS | {"y": NUMBER == 0}, ["a", "b"], "y")
    assert ordered(table, [True, False])[0].classes == ("true", "false")


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (["red", "green"], "have the class 'blue', which classes=… does not list"),
        ([*LABELS, "red"], "lists 'red' twice"),
        ("red", "needs a list of labels in the order of the model's outputs.*got 'red'"),
        ({"red", "green", "blue"}, "needs a list of labels"),
        (3, "needs a list of labels"),
    ],
)
def test_odd_lists_of_classes_are_refused(classes, sentence):
    with pytest.raises(Refused, match=sentence):
        error(SCORES, np.array(LABELS)[NUMBER], classes=classes)
    with pytest.raises(Refused, match="targets are numbers, not classes"):
        error(SCORES, SCORES, classes=LABELS)
