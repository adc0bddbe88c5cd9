"""What is written in Python and takes part in a sweep: what it is made of, and how it gets to other processes."""

from __future__ import annotations

import collections
import contextlib
import dis
import functools
import hashlib
import importlib
import io
import os
import site
import sys
import sysconfig
import threading
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ._scenario import wrong


@dataclass(frozen=True)
class Registered:
    """A class or a policy, and how it is registered again: ``register(name, made, options)``."""

    register: Callable[[str, Any, dict[str, Any]], None]
    made: Any
    options: dict[str, Any]


KNOWN: dict[str, Registered] = {}
"""What this process registered, by name; the newest counts."""

#: Options that no figure depends on.
_SHOWN = ("summary", "show")
#: Attributes of a class that say where it stands and what it is called, not what it does.
_PLACES_OF_A_CLASS = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__annotations__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__firstlineno__", "__static_attributes__", "_abc_impl",
}  # fmt: skip
_PLAIN = (type(None), bool, float, complex, str, type(...), type(NotImplemented))
_COMPILED = (
    types.BuiltinFunctionType, types.WrapperDescriptorType, types.MethodDescriptorType, types.ClassMethodDescriptorType,
    types.MethodWrapperType, types.GetSetDescriptorType, types.MemberDescriptorType,
)  # fmt: skip


@functools.cache
def _installed_places() -> tuple[str, ...]:
    paths = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    paths += [*site.getsitepackages(), site.getusersitepackages()]
    return tuple({os.path.realpath(path) + os.sep for path in paths if path})


def _installed(name: Optional[str]) -> bool:
    """Whether a module is of Python, or of a package that was installed: it counts by its name, and other machines have it."""
    if name is None or name in ("__main__", "__mp_main__"):
        return False
    if name.partition(".")[0] in ("paceline", "builtins"):
        return True
    module = sys.modules.get(name)
    file: Optional[str] = getattr(module, "__file__", None)
    if file is None:
        return getattr(getattr(module, "__spec__", None), "origin", None) in ("built-in", "frozen")
    return os.path.realpath(file).startswith(_installed_places())


class _Walk:
    """Feeds a digest with all that an object is made of: code, not places in files, and the values that it uses."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()
        self.modules: dict[str, types.ModuleType] = {}
        """Modules that are not installed, and that it uses."""
        self._met: dict[int, int] = {}
        # Of an object that is gone another one may have the number.
        self._alive: list[Any] = []
        self._attributes: set[tuple[int, tuple[str, ...]]] = set()

    def say(self, *words: Any) -> None:
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogatepass")
            self.hash.update(b"%d:" % len(data) + data)

    def walk(self, value: Any) -> None:
        kind = type(value)
        self.say(kind.__qualname__)
        if kind in _PLAIN:
            self.say(repr(value))
        elif kind is int:
            self.say(hex(value))
        elif kind in (bytes, bytearray):
            self.say(bytes(value))
        elif kind is tuple:
            self.each(value)
        elif kind in (set, frozenset):
            self.unordered(value)
        elif id(value) in self._met:
            self.say(self._met[id(value)])
        else:
            self._met[id(value)] = len(self._met)
            self._alive.append(value)
            self.inside(value)

    def each(self, values: Iterable[Any]) -> None:
        values = list(values)
        self.say(len(values))
        for value in values:
            self.walk(value)

    def unordered(self, values: Iterable[Any]) -> None:
        digests = []
        for value in values:
            other = _Walk()
            other._met, other._alive = dict(self._met), self._alive
            other.walk(value)
            self.modules.update(other.modules)
            digests.append(other.hash.digest())
        self.say(*sorted(digests))

    def inside(self, value: Any) -> None:
        """What may hold itself."""
        if isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, type):
            self.cls(value)
        elif isinstance(value, types.ModuleType):
            self.module(value, ())
        elif isinstance(value, types.MethodType):
            self.each((value.__func__, value.__self__))
        elif isinstance(value, (staticmethod, classmethod)):
            self.walk(value.__func__)
        elif isinstance(value, property):
            self.each((value.fget, value.fset, value.fdel))
        elif isinstance(value, _COMPILED):
            self.say(value.__qualname__)
            owner = getattr(value, "__self__", None)
            if not isinstance(owner, types.ModuleType):
                self.walk(owner)
        elif type(value) in (dict, types.MappingProxyType):
            self.each(value.items())
        elif type(value) is list:
            self.each(value)
        else:
            self.object(value)

    def object(self, value: Any) -> None:
        attributes = getattr(value, "__dict__", None)
        try:
            reduced = value.__reduce_ex__(4)
        except Exception:  # a lock, an open file: what it is has no words
            self.each((type(value), attributes))
            return
        if isinstance(reduced, str):
            # It has a name, and perhaps a function inside, like that of a cache.
            self.say(reduced)
            self.walk(attributes)
            return
        make, arguments, *rest = reduced
        state, items, pairs = (*rest, None, None, None)[:3]
        self.each((make, arguments, state))
        self.each(items or ())
        self.each(pairs or ())

    def function(self, function: types.FunctionType) -> None:
        cells = function.__closure__ or ()
        if _installed(function.__module__):
            self.say(function.__module__, function.__qualname__)
        else:
            self.note(function.__module__)
            self.code(function.__code__, function.__globals__)
            self.each((function.__defaults__, function.__kwdefaults__))
            self.each(sorted(vars(function).items(), key=lambda item: item[0]))
        for cell in cells:
            try:
                self.walk(cell.cell_contents)
            except ValueError:  # it is empty yet
                self.say("empty")

    def code(self, code: types.CodeType, names: Mapping[str, Any]) -> None:
        self.say(code.co_code, code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        self.each((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
        self.say(getattr(code, "co_exceptiontable", b""))
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self.code(constant, names)
            else:
                self.walk(constant)
        used = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        for name in sorted(used):
            if name in names:
                self.say(name)
                self.used(names[name], code.co_names)

    def used(self, value: Any, names: tuple[str, ...]) -> None:
        """A global; of a module what is asked of it."""
        if isinstance(value, types.ModuleType):
            self.module(value, names)
        else:
            self.walk(value)

    def module(self, module: types.ModuleType, names: tuple[str, ...]) -> None:
        self.say(module.__name__)
        if _installed(module.__name__) or (id(module), names) in self._attributes:
            return
        self._attributes.add((id(module), names))
        self.note(module.__name__)
        for name in sorted(set(names) & set(vars(module))):
            self.say(name)
            self.used(vars(module)[name], names)

    def cls(self, cls: type) -> None:
        if _installed(cls.__module__):
            self.say(cls.__module__, cls.__qualname__)
            return
        self.note(cls.__module__)
        self.each((type(cls), cls.__bases__))
        for name, value in sorted(vars(cls).items()):
            if name not in _PLACES_OF_A_CLASS:
                self.say(name)
                self.walk(value)

    def note(self, name: Optional[str]) -> None:
        module = sys.modules.get(name or "")
        if module is not None and name not in ("__main__", "__mp_main__"):
            self.modules[module.__name__] = module


def _walked(registered: Registered) -> _Walk:
    walk = _Walk()
    try:
        walk.walk(registered.made)
    except RecursionError:
        raise _refused(f"{registered.made!r}: what it uses is nested too deep to be known again; use flat lists") from None
    walk.each((key, value) for key, value in sorted(registered.options.items()) if key not in _SHOWN)
    return walk


def digests(names: Iterable[str]) -> dict[str, str]:
    """A digest of each that was registered here, by name: another one where its code, or a value that it uses, is another."""
    return {name: _walked(KNOWN[name]).hash.hexdigest()[:32] for name in names if name in KNOWN}


def packed(names: Iterable[str]) -> Optional[bytes]:
    """What was registered here, so that other processes can register it: those need neither its module nor its file. None where there
    is nothing to send."""
    known = {name: KNOWN[name] for name in names if name in KNOWN}
    if not known:
        return None
    listed = ", ".join(f"'{name}'" for name in known)
    threads = "give executor=concurrent.futures.ThreadPoolExecutor()"
    try:
        cloudpickle: Any = importlib.import_module("cloudpickle")
    except ImportError:
        raise _refused(
            f"{listed}: written in Python, which other processes get by cloudpickle; pip install cloudpickle, or {threads}"
        ) from None
    modules: dict[str, types.ModuleType] = {}
    for registered in known.values():
        modules.update(_walked(registered).modules)
    before = cloudpickle.list_registry_pickle_by_value()
    by_value = [module for name, module in modules.items() if name not in before]
    try:
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        for name, registered in known.items():
            try:
                _dumps(cloudpickle, registered)
            except Exception as error:
                why = f"{type(error).__name__}: {error}".replace("\n", " ")
                raise _refused(
                    f"'{name}': it cannot be sent to other processes ({why}); make in __init__ what cannot be sent, or {threads}"
                ) from error
        return _dumps(cloudpickle, known)
    finally:
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)


def _dumps(cloudpickle: Any, value: Any) -> bytes:
    """Errors name the file of a class, which cloudpickle leaves out."""
    table = cloudpickle.Pickler.dispatch_table
    reduced = table[types.CodeType]
    named = {types.CodeType: lambda code: (_of_file, (*reduced(code), code.co_filename))}
    pickler = type("Pickler", (cloudpickle.Pickler,), {"dispatch_table": collections.ChainMap(named, table)})
    file = io.BytesIO()
    pickler(file).dump(value)
    return file.getvalue()


def _of_file(make: Callable[..., types.CodeType], arguments: tuple[Any, ...], filename: str) -> types.CodeType:
    return make(*arguments).replace(co_filename=filename)


def _refused(message: str) -> Exception:
    return wrong("contestants", f"sweep: contestants: {message}")


class _Turns:
    """Of one name a process knows one class at a time: sweeps with controllers of their own take turns."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._of: Optional[str] = None
        self._busy = 0

    @contextlib.contextmanager
    def taken(self, key: str, data: bytes) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._of == key or not self._busy)
            if self._of != key:
                self._of = None
                _register(data)
                self._of = key
            self._busy += 1
        try:
            yield
        finally:
            with self._changed:
                self._busy -= 1
                self._changed.notify_all()


def _register(data: bytes) -> None:
    cloudpickle: Any = importlib.import_module("cloudpickle")
    try:
        known: dict[str, Registered] = cloudpickle.loads(data)
        for name, registered in known.items():
            registered.register(name, registered.made, registered.options)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".replace("\n", " ")
        raise RuntimeError(
            f"a worker cannot load a controller of the sweep ({why}); give all workers the same packages, and start them again"
        ) from error


TURNS = _Turns()
