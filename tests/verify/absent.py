"""Packages that only run on a GPU (flash-attn, Triton kernels), answered by empty ones while a schema beside them is loaded.

    with absent("flash_attn"):
        from nanotron.config import get_config_from_file
"""

import contextlib
import importlib.abc
import importlib.machinery
import sys
import types
import unittest.mock


class _Empty(types.ModuleType):
    __version__ = "2.6.3"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return unittest.mock.MagicMock(name=name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        if any(name == known or name.startswith(known + ".") for known in self.names):
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec):
        return _Empty(spec.name)

    def exec_module(self, module):
        pass


@contextlib.contextmanager
def absent(*names):
    finder = _Finder(names)
    sys.meta_path.append(finder)  # behind the others: what is installed is used
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
