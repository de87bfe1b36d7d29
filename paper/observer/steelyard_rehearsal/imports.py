"""Runs something once a package has been imported, however it is imported."""

import importlib.machinery
import sys

_waiting = {}


class _Finder:
    def find_spec(self, name, path=None, target=None):
        if name not in _waiting:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None or not hasattr(spec.loader, "exec_module"):
            return None
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            for run in _waiting.pop(name, ()):  # others ask for the spec alone, to see whether the package is there
                run(module)

        spec.loader.exec_module = exec_module
        return spec


def when_imported(name, run):
    """`run` gets the module."""
    if name in sys.modules:
        return run(sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(run)
