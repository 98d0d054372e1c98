"""What a kernel may depend on: how it is defined, how a number is read from it, and how it is changed.

`@V@` stands for the number; an edit of the source is another number there. `OBJ` is what the ways of `ways.py` pass on,
`{o}` where they pass it to. A change runs in the module of the definition.
"""

# A table, one line each.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from typing import NamedTuple


class Form(NamedTuple):
    family: str
    name: str
    defs: str
    read: str
    changes: tuple[str, ...]


def _class(body: str, *, bases: str = "", before: str = "", after: str = "OBJ = Thing()") -> str:
    lines = "\n".join("    " + line for line in body.splitlines())
    return f"{before}\nclass Thing{bases}:\n{lines}\n{after}\n"


VALUES = (
    Form("value", "int", "OBJ = @V@", "{o}", ("OBJ = 91", "OBJ = 92")),
    Form("value", "float", "OBJ = @V@.5", "int({o} * 2)", ("OBJ = 91.0",)),
    Form("value", "bool or int", "OBJ = 1 if @V@ == 7 else True", "type({o}).__name__ == 'bool'", ("OBJ = True",)),
    Form("value", "text", "OBJ = 'a' * @V@", "len({o})", ("OBJ = 'b' * 91",)),
    Form("value", "bytes", "OBJ = bytes([@V@])", "{o}[0]", ("OBJ = b'a'",)),
    Form("value", "complex", "OBJ = complex(@V@, 1)", "int({o}.real)", ("OBJ = 91j + 4",)),
    Form("value", "range", "OBJ = range(@V@)", "len({o})", ("OBJ = range(91)",)),
    Form("value", "slice", "OBJ = slice(@V@)", "{o}.stop", ("OBJ = slice(91)",)),
    Form("value", "tuple", "OBJ = (1, (2, @V@))", "{o}[1][1]", ("OBJ = (1, (2, 91))",)),
    Form("value", "None or int", "OBJ = None if @V@ == 7 else 3", "5 if {o} is None else {o}", ("OBJ = 91",)),
)
CONTAINERS = (
    Form(
        "container",
        "list",
        "OBJ = [@V@, 1]",
        "{o}[0]",
        ("OBJ[0] = 91", "OBJ.insert(0, 92)", "OBJ[:] = [93]", "OBJ.append(94); OBJ.reverse()"),
    ),
    Form("container", "nested list", "OBJ = [[[@V@]]]", "{o}[0][0][0]", ("OBJ[0][0][0] = 91", "OBJ[0] = [[92]]")),
    Form("container", "dict", "OBJ = {'n': @V@}", "{o}['n']", ("OBJ['n'] = 91", "OBJ.update(n=92)", "OBJ |= {'n': 93}")),
    Form(
        "container",
        "order of a dict",
        "OBJ = {@V@: 0, 1: 0}",
        "next(iter({o}))",
        ("OBJ[next(iter(OBJ))] = OBJ.pop(next(iter(OBJ)))", "a = list(OBJ); OBJ.clear(); OBJ.update({91: 0, a[0]: 1})"),
    ),
    Form("container", "set", "OBJ = {@V@}", "sum({o})", ("OBJ.add(91)", "OBJ.clear(); OBJ.add(92)")),
    Form("container", "frozenset", "OBJ = frozenset([@V@])", "sum({o})", ("OBJ = frozenset([91])",)),
    Form("container", "bytearray", "OBJ = bytearray([@V@])", "{o}[0]", ("OBJ[0] = 91",)),
    Form("container", "array", "import array\nOBJ = array.array('i', [@V@])", "{o}[0]", ("OBJ[0] = 91",)),
    Form(
        "container",
        "deque",
        "from collections import deque\nOBJ = deque([@V@, 2])",
        "{o}[0]",
        ("OBJ.appendleft(91)", "OBJ.rotate(1)"),
    ),
    Form(
        "container",
        "OrderedDict",
        "from collections import OrderedDict\nOBJ = OrderedDict([(@V@, 0), (2, 0)])",
        "next(iter({o}))",
        ("OBJ.move_to_end(2, last=False)",),
    ),
    Form(
        "container",
        "defaultdict",
        "from collections import defaultdict\nOBJ = defaultdict(lambda: @V@)",
        "{o}.default_factory()",
        ("OBJ.default_factory = lambda: 91",),
    ),
    Form("container", "Counter", "from collections import Counter\nOBJ = Counter('a' * @V@)", "{o}['a']", ("OBJ['a'] = 91",)),
    Form(
        "container",
        "mappingproxy",
        "import types\nBACK = {'n': @V@}\nOBJ = types.MappingProxyType(BACK)",
        "{o}['n']",
        ("BACK['n'] = 91",),
    ),
    Form("container", "functions in a dict", "OBJ = {'f': lambda: @V@}", "{o}['f']()", ("OBJ['f'] = lambda: 91",)),
    Form("container", "objects in a list", _class("n = @V@", after="OBJ = [Thing()]"), "{o}[0].n", ("OBJ[0].n = 91", "Thing.n = 92")),
)
OBJECTS = (
    Form("object", "attribute", _class("def __init__(self): self.n = @V@"), "{o}.n", ("OBJ.n = 91", "OBJ.__dict__ = {'n': 92}", "vars(OBJ)['n'] = 93")),
    Form("object", "nested attribute", _class("pass", after="OBJ = Thing(); OBJ.a = Thing(); OBJ.a.n = @V@"), "{o}.a.n", ("OBJ.a.n = 91", "OBJ.a = Thing(); OBJ.a.n = 92")),
    Form("object", "class attribute", _class("n = @V@"), "{o}.n", ("Thing.n = 91", "OBJ.n = 92", "del OBJ.n")),
    Form("object", "slots", _class("__slots__ = ('n',)", after="OBJ = Thing(); OBJ.n = @V@"), "{o}.n", ("OBJ.n = 91",)),
    Form("object", "class assigned", _class("n = @V@", after="class Other:\n    n = 91\nOBJ = Thing()"), "{o}.n", ("OBJ.__class__ = Other",)),
    Form("object", "__getattr__", _class("def __getattr__(self, name): return @V@"), "{o}.n", ("Thing.__getattr__ = lambda self, name: 91", "OBJ.n = 92")),
    Form("object", "__getattribute__", _class("def __getattribute__(self, name): return @V@"), "{o}.n", ("Thing.__getattribute__ = lambda self, name: 91",)),
    Form("object", "descriptor", "class D:\n    def __get__(self, o, t): return @V@\n" + _class("n = D()"), "{o}.n", ("D.__get__ = lambda self, o, t: 91", "Thing.n = 92")),
    Form("object", "descriptor state", "class D:\n    v = @V@\n    def __get__(self, o, t): return self.v\n" + _class("n = D()"), "{o}.n", ("vars(Thing)['n'].v = 91", "D.v = 92")),
    Form("object", "SimpleNamespace", "import types\nOBJ = types.SimpleNamespace(n=@V@)", "{o}.n", ("OBJ.n = 91",)),
    Form("object", "cycle", _class("n = @V@", after="OBJ = Thing(); OBJ.me = OBJ"), "{o}.me.me.n", ("OBJ.n = 91",)),
    Form("object", "weak reference", "import weakref\n" + _class("n = @V@", after="KEEP = Thing(); OBJ = weakref.ref(KEEP)"), "{o}().n", ("KEEP.n = 91",)),
)
METHODS = (
    Form("method", "method", _class("def get(self): return @V@"), "{o}.get()", ("Thing.get = lambda self: 91", "OBJ.get = lambda: 92", "Thing.get.__code__ = (lambda self: 93).__code__")),
    Form("method", "method through self", _class("def get(self): return self.inner()\ndef inner(self): return @V@"), "{o}.get()", ("Thing.inner = lambda self: 91",)),
    Form("method", "property", _class("@property\ndef n(self): return @V@"), "{o}.n", ("Thing.n = property(lambda self: 91)", "Thing.n = 92")),
    Form("method", "property over state", _class("def __init__(self): self._n = @V@\n@property\ndef n(self): return self._n * 2"), "{o}.n", ("OBJ._n = 45",)),
    Form("method", "cached_property", "import functools\n" + _class("@functools.cached_property\ndef n(self): return @V@"), "{o}.n", ("OBJ.n = 91", "del OBJ.n; Thing.n = 92")),
    Form("method", "classmethod", _class("n = @V@\n@classmethod\ndef get(cls): return cls.n"), "{o}.get()", ("Thing.n = 91", "Thing.get = classmethod(lambda cls: 92)")),
    Form("method", "staticmethod", _class("@staticmethod\ndef get(): return @V@"), "{o}.get()", ("Thing.get = staticmethod(lambda: 91)",)),
    Form("method", "bound method", _class("n = @V@\ndef get(self): return self.n", after="KEEP = Thing(); OBJ = KEEP.get"), "{o}()", ("KEEP.n = 91", "Thing.get.__code__ = (lambda self: 92).__code__")),
    Form("method", "callable object", _class("def __init__(self): self.n = @V@\ndef __call__(self): return self.n"), "{o}()", ("OBJ.n = 91", "Thing.__call__ = lambda self: 92")),
    Form("method", "replaced base", "class Base:\n    def get(self): return @V@\n" + _class("pass", bases="(Base)"), "{o}.get()", ("Base.get = lambda self: 91", "Thing.get = lambda self: 92")),
    Form("method", "super target", "class Base:\n    def get(self): return @V@\n" + _class("def get(self): return super().get() + 1", bases="(Base)"), "{o}.get()", ("Base.get = lambda self: 90",)),
    Form("method", "bases assigned", "class Base:\n    n = @V@\nclass Other:\n    n = 91\n" + _class("pass", bases="(Base)"), "{o}.n", ("Thing.__bases__ = (Other,)",)),
    Form("method", "mixin order", "class A:\n    pass\nclass B:\n    n = @V@\n" + _class("pass", bases="(A, B)"), "{o}.n", ("A.n = 91",)),
    Form("method", "partialmethod", "import functools\n" + _class("def add(self, a): return a + 1\nget = functools.partialmethod(add, @V@)"), "{o}.get()", ("Thing.add = lambda self, a: 91",)),
    Form("method", "singledispatchmethod", "import functools\n" + _class("@functools.singledispatchmethod\ndef get(self, a): return @V@"), "{o}.get(1)", ("vars(Thing)['get'].register(int, lambda self, a: 91)",)),
)
OPERATORS = tuple(
    Form("operator", name, _class(f"def {name}(self{extra}): return {result}"), read, (f"Thing.{name} = lambda self{extra}: {other}",))
    for name, extra, result, other, read in (
        ("__add__", ", o", "@V@", "91", "{o} + 1"),
        ("__radd__", ", o", "@V@", "91", "1 + {o}"),
        ("__neg__", "", "@V@", "91", "-{o}"),
        ("__mul__", ", o", "@V@", "91", "{o} * 2"),
        ("__getitem__", ", o", "@V@", "91", "{o}[3]"),
        ("__len__", "", "@V@", "91", "len({o})"),
        ("__int__", "", "@V@", "91", "int({o})"),
        ("__index__", "", "@V@", "91", "range(200)[{o}]"),
        ("__iter__", "", "iter([@V@])", "iter([91])", "list({o})[0]"),
        ("__contains__", ", o", "o == @V@", "o == 91", "[i for i in range(200) if i in {o}][0]"),
        ("__eq__", ", o", "o == @V@", "o == 91", "[i for i in range(200) if {o} == i][0]"),
        ("__lt__", ", o", "@V@ < o", "91 < o", "[i for i in range(200) if {o} < i][0]"),
        ("__bool__", "", "@V@ == 7", "False", "3 if {o} else 4"),
        ("__str__", "", "'@V@'", "'91'", "int(str({o}))"),
        ("__format__", ", s", "'@V@'", "'91'", "int('{{}}'.format({o}))"),
        ("__hash__", "", "@V@", "91", "hash({o})"),
        ("__enter__", "", "@V@", "91", "type({o}).__enter__({o})"),
        ("__divmod__", ", o", "(@V@, 1)", "(91, 1)", "divmod({o}, 2)[0]"),
        ("__abs__", "", "@V@", "91", "abs({o})"),
        ("__round__", "", "@V@", "91", "round({o})"),
        ("__matmul__", ", o", "@V@", "91", "{o} @ 1"),
    )
)
CLASSES = (
    Form("class", "class value", _class("n = @V@", after="OBJ = Thing"), "{o}.n", ("OBJ.n = 91",)),
    Form("class", "__init__", _class("def __init__(self): self.n = @V@", after="OBJ = Thing"), "{o}().n", ("def _i(self): self.n = 91\nThing.__init__ = _i",)),
    Form("class", "__new__", _class("def __new__(cls): return @V@", after="OBJ = Thing"), "{o}()", ("Thing.__new__ = lambda cls: 91",)),
    Form("class", "inherited __init__", "class Base:\n    def __init__(self): self.n = @V@\n" + _class("pass", bases="(Base)", after="OBJ = Thing"), "{o}().n", ("def _i(self): self.n = 91\nBase.__init__ = _i",)),
    Form("class", "metaclass", "class Meta(type):\n    @property\n    def n(cls): return @V@\n" + _class("pass", bases="(metaclass=Meta)", after="OBJ = Thing"), "{o}.n", ("Meta.n = property(lambda cls: 91)",)),
    Form("class", "metaclass __call__", "class Meta(type):\n    def __call__(cls): return @V@\n" + _class("pass", bases="(metaclass=Meta)", after="OBJ = Thing"), "{o}()", ("Meta.__call__ = lambda cls: 91",)),
    Form("class", "made by type()", "OBJ = type('Made', (), {'n': @V@})", "{o}.n", ("OBJ.n = 91",)),
    Form("class", "abstract", "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def get(self): ...\n" + _class("def get(self): return @V@", bases="(Base)"), "{o}.get()", ("Thing.get = lambda self: 91",)),
    Form("class", "generic", "import typing\nT = typing.TypeVar('T')\n" + _class("n: T = @V@", bases="(typing.Generic[T])", after="OBJ = Thing[int]"), "{o}().n", ("Thing.n = 91",)),
    Form("class", "registry", "class Base:\n    known = []\n    def __init_subclass__(cls): Base.known.append(cls)\n" + _class("n = @V@", bases="(Base)", after="OBJ = Base"), "{o}.known[-1].n", ("class More(Base):\n    n = 91",)),
    Form("class", "class decorator", "def plus(cls):\n    cls.n = @V@\n    return cls\n" + _class("pass", before="").replace("\nclass Thing", "\n@plus\nclass Thing"), "{o}.n", ("Thing.n = 91",)),
)
DATA = (
    Form("dataclass", "field", "import dataclasses\n" + _class("n: int = @V@").replace("\nclass", "\n@dataclasses.dataclass\nclass"), "{o}.n", ("OBJ.n = 91",)),
    Form("dataclass", "frozen", "import dataclasses\n" + _class("n: int = @V@").replace("\nclass", "\n@dataclasses.dataclass(frozen=True)\nclass"), "{o}.n", ("object.__setattr__(OBJ, 'n', 91)",)),
    Form("dataclass", "slots", "import dataclasses\n" + _class("n: int = @V@").replace("\nclass", "\n@dataclasses.dataclass(slots=True)\nclass"), "{o}.n", ("OBJ.n = 91",)),
    Form("dataclass", "ClassVar", "import dataclasses, typing\n" + _class("k: typing.ClassVar[int] = @V@\nn: int = 1").replace("\nclass", "\n@dataclasses.dataclass\nclass"), "{o}.k", ("Thing.k = 91",)),
    Form("dataclass", "default_factory", "import dataclasses\n" + _class("n: list = dataclasses.field(default_factory=lambda: [@V@])", after="OBJ = Thing").replace("\nclass", "\n@dataclasses.dataclass\nclass"), "{o}().n[0]", ("def _i(self): self.n = [91]\nThing.__init__ = _i",)),
    Form("dataclass", "asdict", "import dataclasses\n" + _class("n: int = @V@").replace("\nclass", "\n@dataclasses.dataclass\nclass"), "sum(dataclasses.astuple({o}))", ("OBJ.n = 91",)),
    Form("dataclass", "replace", "import dataclasses\n" + _class("n: int = @V@\nm: int = 1").replace("\nclass", "\n@dataclasses.dataclass\nclass"), "{o}.n", ("OBJ = dataclasses.replace(OBJ, n=91)",)),
    Form("named tuple", "item", "import typing\n" + _class("n: int", bases="(typing.NamedTuple)", after="OBJ = Thing(@V@)"), "{o}.n", ("OBJ = Thing(91)",)),
    Form("named tuple", "method", "import typing\n" + _class("n: int\ndef get(self): return self.n + @V@", bases="(typing.NamedTuple)", after="OBJ = Thing(1)"), "{o}.get()", ("Thing.get = lambda self: 91",)),
    Form("named tuple", "class attribute", "import collections\nclass Thing(collections.namedtuple('P', 'a')):\n    k = @V@\nOBJ = Thing(1)", "{o}.k", ("Thing.k = 91",)),
    Form("named tuple", "item of a plain one", "import collections\nThing = collections.namedtuple('P', 'a b')\nOBJ = Thing(1, @V@)", "{o}.b", ("OBJ = OBJ._replace(b=91)",)),
    Form("enum", "value", "import enum\n" + _class("A = @V@", bases="(enum.Enum)", after="OBJ = Thing.A"), "{o}.value", ("OBJ._value_ = 91",)),
    Form("enum", "class", "import enum\n" + _class("A = @V@\nB = 200", bases="(enum.Enum)", after="OBJ = Thing"), "{o}.A.value", ("OBJ.A._value_ = 91",)),
    Form("enum", "order", "import enum\n" + _class("A = @V@\nB = 200", bases="(enum.Enum)", after="OBJ = Thing"), "next(iter({o})).value", ("OBJ._member_names_.reverse()",)),
    Form("enum", "IntEnum", "import enum\n" + _class("A = @V@", bases="(enum.IntEnum)", after="OBJ = Thing.A"), "int({o}) + 1", ("Thing.__int__ = lambda self: 91",)),
    Form("enum", "method", "import enum\n" + _class("A = 1\ndef get(self): return @V@", bases="(enum.Enum)", after="OBJ = Thing.A"), "{o}.get()", ("Thing.get = lambda self: 91",)),
    Form("enum", "attribute of a member", "import enum\n" + _class("A = 1", bases="(enum.Enum)", after="OBJ = Thing.A; OBJ.extra = @V@"), "{o}.extra", ("OBJ.extra = 91",)),
    Form("subclass", "int with state", _class("pass", bases="(int)", after="OBJ = Thing(3); OBJ.n = @V@"), "{o}.n", ("OBJ.n = 91",)),
    Form("subclass", "int value", _class("pass", bases="(int)", after="OBJ = Thing(@V@)"), "{o} + 1", ("OBJ = Thing(91)", "Thing.__add__ = lambda self, o: 92")),
    Form("subclass", "str with method", _class("def get(self): return len(self) + @V@", bases="(str)", after="OBJ = Thing('abc')"), "{o}.get()", ("Thing.get = lambda self: 91",)),
    Form("subclass", "float", _class("def get(self): return int(self)", bases="(float)", after="OBJ = Thing(@V@)"), "{o}.get()", ("Thing.get = lambda self: 91",)),
    Form("subclass", "dict with state", _class("pass", bases="(dict)", after="OBJ = Thing(a=1); OBJ.n = @V@"), "{o}.n", ("OBJ.n = 91",)),
    Form("subclass", "dict items", _class("pass", bases="(dict)", after="OBJ = Thing(a=@V@)"), "{o}['a']", ("OBJ['a'] = 91", "Thing.__getitem__ = lambda self, k: 92")),
    Form("subclass", "dict __missing__", _class("def __missing__(self, k): return @V@", bases="(dict)"), "{o}['q']", ("Thing.__missing__ = lambda self, k: 91", "OBJ['q'] = 92")),
    Form("subclass", "list", _class("def total(self): return sum(self)", bases="(list)", after="OBJ = Thing([@V@])"), "{o}.total()", ("OBJ.append(91)", "Thing.total = lambda self: 92")),
    Form("subclass", "tuple", _class("n = @V@", bases="(tuple)", after="OBJ = Thing((1,))"), "{o}.n + {o}[0]", ("Thing.n = 91",)),
    Form("subclass", "deque", "from collections import deque\n" + _class("pass", bases="(deque)", after="OBJ = Thing([@V@])"), "{o}[0]", ("OBJ[0] = 91",)),
    Form("subclass", "Fraction", "import fractions\n" + _class("pass", bases="(fractions.Fraction)", after="OBJ = Thing(@V@, 1)"), "int({o})", ("OBJ._numerator = 91",)),
)
LIBRARY = (
    Form("library", "numpy array", "import numpy\nOBJ = numpy.array([@V@, 1])", "int({o}[0])", ("OBJ[0] = 91", "OBJ[...] = 92")),
    Form("library", "numpy matrix", "import numpy\nOBJ = numpy.full((2, 3), @V@, 'f4')", "int({o}.sum())", ("OBJ += 1",)),
    Form("library", "numpy view", "import numpy\nBACK = numpy.array([0, @V@])\nOBJ = BACK[1:]", "int({o}[0])", ("BACK[1] = 91",)),
    Form("library", "numpy objects", "import numpy\nOBJ = numpy.array([@V@, None], dtype=object)", "{o}[0]", ("OBJ[0] = 91",)),
    Form("library", "numpy scalar", "import numpy\nOBJ = numpy.int64(@V@)", "int({o})", ("OBJ = numpy.int64(91)",)),
    Form("library", "numpy dtype", "import numpy\nOBJ = numpy.dtype('i4') if @V@ == 7 else numpy.dtype('i8')", "{o}.itemsize", ("OBJ = numpy.dtype('i2')",)),
    Form("library", "Decimal", "import decimal\nOBJ = decimal.Decimal(@V@)", "int({o} + 1)", ("OBJ = decimal.Decimal(91)",)),
    Form("library", "Fraction", "import fractions\nOBJ = fractions.Fraction(@V@, 1)", "int({o})", ("OBJ = fractions.Fraction(91)", "OBJ._numerator = 92")),
    Form("library", "Path", "import pathlib\nOBJ = pathlib.Path('a' * @V@)", "len({o}.name)", ("OBJ = pathlib.Path('b' * 91)",)),
    Form("library", "date", "import datetime\nOBJ = datetime.date(2000, 1, @V@)", "{o}.day", ("OBJ = datetime.date(2000, 1, 31)",)),
    Form("library", "timedelta", "import datetime\nOBJ = datetime.timedelta(@V@)", "{o}.days", ("OBJ = datetime.timedelta(91)",)),
    Form("library", "pattern", "import re\nOBJ = re.compile('a' * @V@)", "len({o}.pattern)", ("OBJ = re.compile('b' * 91)",)),
    Form("library", "UUID", "import uuid\nOBJ = uuid.UUID(int=@V@)", "{o}.int", ("OBJ = uuid.UUID(int=91)",)),
    Form("library", "Random", "import random\nOBJ = random.Random(@V@)", "{o}.getstate()[1][0] % 100000", ("OBJ.seed(91)",)),
    Form("library", "itemgetter", "import operator\nOBJ = operator.itemgetter(@V@)", "{o}(range(200))", ("OBJ = operator.itemgetter(91)",)),
    Form("library", "attrgetter", "import operator\n" + _class("n = @V@"), "operator.attrgetter('n')({o})", ("OBJ.n = 91",)),
    Form("library", "Namespace", "import argparse\nOBJ = argparse.Namespace(n=@V@)", "{o}.n", ("OBJ.n = 91",)),
    Form("library", "ChainMap", "from collections import ChainMap\nOBJ = ChainMap({}, {'n': @V@})", "{o}['n']", ("OBJ['n'] = 91", "OBJ.maps[0].clear(); OBJ.maps[1]['n'] = 92")),
)
FUNCTIONS = (
    Form("function", "code", "def OBJ(): return @V@", "{o}()", ("OBJ.__code__ = (lambda: 91).__code__",)),
    Form("function", "default", "def OBJ(a=@V@): return a", "{o}()", ("OBJ.__defaults__ = (91,)",)),
    Form("function", "keyword default", "def OBJ(*, a=@V@): return a", "{o}()", ("OBJ.__kwdefaults__ = {'a': 91}", "OBJ.__kwdefaults__['a'] = 92")),
    Form("function", "mutable default", "def OBJ(a=[@V@]): return a[0]", "{o}()", ("OBJ.__defaults__[0][0] = 91",)),
    Form("function", "default set later", "def OBJ(a=@V@, b=0): return a + b", "{o}()", ("OBJ.__defaults__ = (90, 1)",)),
    Form("function", "attribute", "def OBJ(): return OBJ.n\nOBJ.n = @V@", "{o}()", ("OBJ.n = 91",)),
    Form("function", "attribute read outside", "def OBJ(): pass\nOBJ.n = @V@", "{o}.n", ("OBJ.n = 91",)),
    Form("function", "global inside", "N = @V@\ndef OBJ(): return N", "{o}()", ("N = 91",)),
    Form("function", "helper inside", "def inner(): return @V@\ndef OBJ(): return inner()", "{o}()", ("inner = lambda: 91", "inner.__code__ = (lambda: 92).__code__")),
    Form("function", "closure", "def make(n):\n    def get(): return n\n    def put(v):\n        nonlocal n\n        n = v\n    return get, put\nOBJ, put = make(@V@)", "{o}()", ("put(91)",)),
    Form("function", "lambda", "N = @V@\nOBJ = lambda: N + 1", "{o}()", ("N = 91",)),
    Form("function", "comprehension", "N = @V@\ndef OBJ(): return sum(N for _ in range(2))", "{o}()", ("N = 91",)),
    Form("function", "nested", "N = @V@\ndef OBJ():\n    def deep():\n        return (lambda: N)()\n    return deep()", "{o}()", ("N = 91",)),
    Form("function", "generator function", "def OBJ():\n    yield @V@", "next({o}())", ("def _g():\n    yield 91\nOBJ.__code__ = _g.__code__",)),
    Form("function", "class inside", "N = @V@\ndef OBJ():\n    class Inside:\n        n = N\n    return Inside.n", "{o}()", ("N = 91",)),
    Form("function", "match", _class("__match_args__ = ('n',)\nn = @V@", after="KEEP = Thing()\ndef OBJ():\n    match KEEP:\n        case Thing(n):\n            return n"), "{o}()", ("KEEP.n = 91",)),
    Form("function", "partial", "import functools\ndef add(a, b=0): return a + b\nOBJ = functools.partial(add, @V@)", "{o}()", ("add.__code__ = (lambda a, b=0: 91).__code__", "OBJ.__setstate__((add, (92,), {}, {}))")),
    Form("function", "partial of a list", "import functools\ndef first(a): return a[0]\nOBJ = functools.partial(first, [@V@])", "{o}()", ("OBJ.args[0][0] = 91",)),
    Form("function", "sort key", "def by(v): return -v if @V@ == 7 else v\ndef OBJ(): return sorted([3, 4], key=by)[0]", "{o}()", ("by = lambda v: v",)),
    Form("function", "map", "def plus(v): return v + @V@\ndef OBJ(): return list(map(plus, [1]))[0]", "{o}()", ("plus = lambda v: 91",)),
    Form("decorator", "wraps", "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def inner(*a): return f(*a) + @V@\n    return inner\n@deco\ndef OBJ(): return 1", "{o}()", ("OBJ.__wrapped__.__code__ = (lambda: 91).__code__",)),
    Form("decorator", "wrapped function", "import functools\ndef deco(f):\n    @functools.wraps(f)\n    def inner(*a): return f(*a) + 1\n    return inner\n@deco\ndef OBJ(): return @V@", "{o}()", ("OBJ.__code__ = OBJ.__code__.replace(co_consts=tuple(5 if c == 1 else c for c in OBJ.__code__.co_consts))",)),
    Form("decorator", "class", "class Deco:\n    def __init__(self, f): self.f = f; self.k = @V@\n    def __call__(self): return self.f() + self.k\n@Deco\ndef OBJ(): return 1", "{o}()", ("OBJ.k = 91", "OBJ.f = lambda: 92", "Deco.__call__ = lambda self: 93")),
    Form("decorator", "contextmanager", "import contextlib\n@contextlib.contextmanager\ndef manager():\n    yield @V@\ndef OBJ():\n    with manager() as n:\n        return n", "{o}()", ("def _g():\n    yield 91\nmanager.__wrapped__.__code__ = _g.__code__", "@contextlib.contextmanager\ndef manager():\n    yield 92")),
    Form("decorator", "contextmanager as value", "import contextlib\n@contextlib.contextmanager\ndef OBJ():\n    yield @V@", "{o}().__enter__()", ("def _g():\n    yield 91\nOBJ.__wrapped__.__code__ = _g.__code__",)),
    Form("decorator", "singledispatch", "import functools\n@functools.singledispatch\ndef OBJ(a): return @V@", "{o}(1)", ("OBJ.register(int, lambda a: 91)", "OBJ.__wrapped__.__code__ = (lambda a: 92).__code__; OBJ.register(int, lambda a: 93)")),
    Form("decorator", "lru_cache", "import functools\n@functools.lru_cache\ndef OBJ(): return @V@", "{o}()", ("OBJ.cache_clear(); OBJ.__wrapped__.__code__ = (lambda: 91).__code__",)),
    Form("decorator", "attribute of a closure", "class State: n = @V@\ndef deco(f):\n    s = State()\n    return lambda: f() + s.n\n@deco\ndef OBJ(): return 1", "{o}()", ("State.n = 91",)),
)
FORMS = (*VALUES, *CONTAINERS, *OBJECTS, *METHODS, *OPERATORS, *CLASSES, *DATA, *LIBRARY, *FUNCTIONS)
