"""Every example in the docstrings runs."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import flydsl.layout

MODULES = [name for _, name, _ in pkgutil.iter_modules(flydsl.layout.__path__, "flydsl.layout.")]


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_everything_exported_exists_and_is_documented():
    for name in flydsl.layout.__all__:
        value = getattr(flydsl.layout, name)
        if inspect.isroutine(value) or inspect.isclass(value):
            assert value.__doc__, name


def test_public_algebra_has_an_example():
    examples = [
        "size cosize coshape coprofile rank depth crd2idx idx2crd get_flat_coord get_1d_coord coalesce composition",
        "complement right_inverse left_inverse logical_divide zipped_divide tiled_divide flat_divide logical_product",
        "zipped_product tiled_product flat_product blocked_product raked_product recast_layout slice dice select group",
        "take get_ append prepend tile_to_shape make_layout_tv ceil_div shape_div elem_less equal",
    ]
    for name in " ".join(examples).split():
        assert ">>>" in getattr(flydsl.layout, name).__doc__, name
