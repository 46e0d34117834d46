"""Every value class can be imported from `lossless.model`, wherever it is defined."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys

import pytest

from lossless import model

MODULES = [importlib.import_module(f"lossless.model.{each.name}") for each in pkgutil.iter_modules(model.__path__)]


def test_every_class_of_every_module_is_a_name_of_the_package() -> None:
    for module in MODULES:
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_"):
                assert getattr(model, name) is value, f"{module.__name__}.{name}"


def test_every_name_of_the_package_exists() -> None:
    for name in dir(model):
        assert getattr(model, name) is not None


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Massage'"):
        _ = getattr(model, "Massage")  # noqa: B009 - mypy refuses the name itself
    with pytest.raises(ImportError):
        exec("from lossless.model import Massage")  # noqa: S102 - mypy refuses the import itself


def test_a_module_is_loaded_when_one_of_its_names_is_used() -> None:
    script = "import sys, lossless.model; print('lossless.model.transfer' in sys.modules); lossless.model.Backup; print('lossless.model.transfer' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
