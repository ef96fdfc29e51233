"""Errors cross process boundaries under Ray, so every one of them must survive the trip."""

import inspect
import pickle

import pytest

from joulelab import errors

ERRORS = [error for _, error in inspect.getmembers(errors, inspect.isclass)]


@pytest.mark.parametrize("error", ERRORS)
def test_error_survives_the_trip_between_ray_workers(error):
    copy = pickle.loads(pickle.dumps(error("clock 3000 MHz refused")))

    assert type(copy) is error
    assert str(copy) == "clock 3000 MHz refused"
    assert isinstance(copy, errors.JouleLabError)


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_is_drawn_in_the_tree_of_the_module_docstring(error):
    assert error.__name__ in errors.__doc__
