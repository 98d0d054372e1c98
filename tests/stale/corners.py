"""More programs, each for a way of Python to reach a value that the grammar does not make by itself."""

# A table, one line each.
# ruff: noqa: E501
# fmt: off
from __future__ import annotations

from .specials import RUN
from .ways import Program

_HEAD = """
import abc, collections, contextlib, copy, dataclasses, enum, functools, itertools, operator, string, types, typing
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx
"""


def _corner(name: str, source: str, *changes: str) -> Program:
    return Program("corner", name, _HEAD + source + "\n" + RUN, "", changes, "run(x)", "plain()", "program")


CORNERS = (
    _corner('template', "class C: n=@V@\nO=C()\ndef value(): return int('{0.n}'.format(O))", 'O.n=91'),
    _corner('fstring attr', "class C:\n  def __init__(s): s.n=@V@\nO=C()\ndef value(): return int(f'{O.n}')", 'O.n=91'),
    _corner('string.Template', "D={'n':'@V@'}\ndef value(): return int(string.Template('$n').substitute(D))", "D['n']='91'"),
    _corner('attrgetter global', "class C: n=@V@\nO=C()\nG=operator.attrgetter('n')\ndef value(): return G(O)", 'O.n=91', "G=operator.attrgetter('__sizeof__') and (lambda o: 92)"),
    _corner('methodcaller', "class C:\n  def n(self): return @V@\nO=C()\nG=operator.methodcaller('n')\ndef value(): return G(O)", 'C.n=lambda s:91'),
    _corner('getattr alias', "class C: n=@V@\nO=C()\ng=getattr\nP='n'\ndef value(): return g(O,P)", 'O.n=91', "O.m=93;P='m'"),
    _corner('computed name in list', "class C:\n  a=1\n  b=@V@\nO=C()\nN=['b']\ndef value(): return getattr(O,N[0])", 'C.b=91', "N[0]='a'"),
    _corner('reduce', 'def f(a,b): return a+b\nL=[3,4]\ndef value(): return functools.reduce(f,L)', 'f=lambda a,b:91', 'L.append(5);f=lambda a,b:a+b'),
    _corner('singledispatch sub', 'class A: pass\nclass B(A): pass\n@functools.singledispatch\ndef f(x): return 1\n@f.register\ndef _(x:A): return @V@\nO=B()\ndef value(): return f(O)', 'f.register(B, lambda x: 91)'),
    _corner('module level lambda dict', "T={'a':(lambda: K)}\nK=@V@\ndef value(): return T['a']()", 'K=91'),
    _corner('instance of class with class-level list', 'class C:\n  items=[@V@]\nO=C()\ndef value(): return O.items[-1]', 'C.items.append(91)'),
    _corner('inherit slots', "class A: __slots__=('n',)\nclass B(A): __slots__=('m',)\nO=B();O.n=@V@;O.m=1\ndef value(): return O.n+O.m", 'O.n=90'),
    _corner('private mangled slots', "class A:\n  __slots__=('__n',)\n  def __init__(s): s.__n=@V@\n  def get(s): return s.__n\n  def put(s,v): s.__n=v\nO=A()\ndef value(): return O.get()", 'O.put(91)'),
    _corner('private mangled attr', 'class A:\n  def __init__(s): s.__n=@V@\n  def get(s): return s.__n\n  def put(s,v): s.__n=v\nO=A()\ndef value(): return O.get()', 'O.put(91)'),
    _corner('metaclass getattr', 'class M(type):\n  def __getattr__(c,n): return @V@\nclass C(metaclass=M): pass\ndef value(): return C.foo', 'M.__getattr__=lambda c,n:91', 'C.foo=92'),
    _corner('__class_getitem__', 'class C:\n  def __class_getitem__(c,i): return @V@\ndef value(): return C[3]', 'C.__class_getitem__=classmethod(lambda c,i:91)'),
    _corner('__set_name__/descriptor dict', "class D:\n  def __set_name__(s,o,n): s.name=n\n  def __get__(s,o,t): return o.__dict__['_'+s.name]\nclass C:\n  n=D()\n  def __init__(s): s._n=@V@\nO=C()\ndef value(): return O.n", 'O._n=91'),
    _corner('iter protocol', 'class C:\n  def __init__(s): s.d=[@V@]\n  def __iter__(s): yield from s.d\nO=C()\ndef value(): return sum(O)', 'O.d.append(84)'),
    _corner('context manager class', 'class C:\n  n=@V@\n  def __enter__(s): return s.n\n  def __exit__(s,*a): pass\ndef value():\n  with C() as v: return v', 'C.n=91', 'C.__enter__=lambda s:92'),
    _corner('exitstack', 'def value():\n  with contextlib.ExitStack() as s:\n    return s.enter_context(m())\n@contextlib.contextmanager\ndef m(): yield N\nN=@V@', 'N=91'),
    _corner('generator helper chain', 'def g():\n  for i in R: yield i\nR=[@V@]\ndef value(): return max(g())', 'R.append(91)'),
    _corner('exception carrying', 'class E(Exception): pass\nX=E(@V@)\ndef value(): return X.args[0]', 'X.args=(91,)'),
    _corner('user exception attr', 'class E(Exception):\n  n=@V@\nX=E()\ndef value():\n  try: raise X\n  except E as e: return e.n', 'X.n=91'),
    _corner('closure of closure', 'def a():\n  n=[@V@]\n  def b():\n    def c(): return n[0]\n    return c\n  return b(),n\nF,L=a()\ndef value(): return F()', 'L[0]=91'),
    _corner('nonlocal cell', 'def a():\n  n=@V@\n  def get(): return n\n  def put(v):\n    nonlocal n\n    n=v\n  return get,put\nG,P=a()\ndef value(): return G()', 'P(91)'),
    _corner('np structured', "A=np.zeros(2,dtype=[('a','i4'),('b','i4')])\nA['b']=@V@\ndef value(): return A['b'][0]", "A['b']=91"),
    _corner('np subclass', 'class A(np.ndarray): pass\nO=np.array([@V@]).view(A)\ndef value(): return int(O[0])', 'O[0]=91'),
    _corner('np masked', 'O=np.ma.array([@V@,1],mask=[0,1])\ndef value(): return int(O.sum())', 'O[0]=91', 'O.mask[1]=False'),
    _corner('np 0-d noncontig', 'B=np.arange(10).reshape(2,5)\nO=B[:,::2]\ndef value(): return int(O[1,1])', 'B[1,2]=91'),
    _corner('np.vectorize', 'def f(a): return a+6\nV=np.vectorize(f)\ndef value(): return int(V([1])[0])', 'f.__code__=(lambda a:91).__code__'),
    _corner('np.frompyfunc', 'def f(a): return a+6\nV=np.frompyfunc(f,1,1)\ndef value(): return int(V(1))', 'f.__code__=(lambda a:91).__code__'),
    _corner('chain lru inner', '@functools.lru_cache\ndef f(n): return n+K\nK=1\ndef value():\n  f.cache_clear()\n  return f(6)', 'K=85'),
    _corner('cached_property clear', 'class C:\n  k=@V@\n  @functools.cached_property\n  def n(s): return s.k\nO=C()\ndef value(): return O.n', 'del O.n; C.k=91'),
    _corner('total_ordering', '@functools.total_ordering\nclass C:\n  def __init__(s,n): s.n=n\n  def __eq__(s,o): return s.n==o.n\n  def __lt__(s,o): return s.n<o.n\nA=C(1);B=C(2)\ndef value(): return @V@ if A>=B else 8', 'A.n=5', 'C.__lt__=lambda s,o: True'),
    _corner('Flag', 'class F(enum.Flag):\n  A=1\n  B=6\nX=F.A|F.B\ndef value(): return X.value', 'X=F.A'),
    _corner('enum alias class attr', "class F(enum.Enum):\n  A=1\n  def __str__(s): return '@V@'\ndef value(): return int(str(F.A))", "F.__str__=lambda s:'91'"),
    _corner('enum _missing_', 'class F(enum.Enum):\n  A=@V@\n  @classmethod\n  def _missing_(c,v): return c.A\ndef value(): return F(3).value', 'F.A._value_=91'),
    _corner('typed dict', "class T(typing.TypedDict):\n  n:int\nO=T(n=@V@)\ndef value(): return O['n']", "O['n']=91"),
    _corner('dataclass inherit', '@dataclasses.dataclass\nclass A:\n  n:int=@V@\n@dataclasses.dataclass\nclass B(A):\n  m:int=0\nO=B()\ndef value(): return O.n+O.m', 'O.m=84', 'A.n=3;O.n=92'),
    _corner('dataclass __post_init__', '@dataclasses.dataclass\nclass A:\n  n:int=@V@\n  def __post_init__(s): s.n+=K\nK=0\ndef value(): return A().n', 'K=84', 'A.__post_init__=lambda s: None'),
    _corner('dataclasses.fields default', '@dataclasses.dataclass\nclass A:\n  n:int=@V@\ndef value(): return dataclasses.fields(A)[0].default', "A.__dataclass_fields__['n'].default=91"),
    _corner('weakvaluedict', "import weakref\nclass C: n=@V@\nO=C()\nW=weakref.WeakValueDictionary(k=O)\ndef value(): return W['k'].n", 'O.n=91'),
    _corner('userdict', "class D(collections.UserDict): pass\nO=D(n=@V@)\ndef value(): return O['n']", "O['n']=91"),
    _corner('userlist', 'O=collections.UserList([@V@])\ndef value(): return O[0]', 'O[0]=91'),
    _corner('property setter alias', "class C:\n  _n=@V@\n  n=property(operator.attrgetter('_n'))\nO=C()\ndef value(): return O.n", 'O._n=91'),
    _corner('abc registered', 'class A(abc.ABC): pass\nclass C: pass\nO=C()\ndef value(): return @V@ if isinstance(O,A) else 8', 'A.register(C)'),
    _corner('issubclass hook', 'class A(abc.ABC):\n  @classmethod\n  def __subclasshook__(c,o): return K\nK=False\ndef value(): return @V@ if issubclass(int,A) else 8', "K=True; abc.ABC.__new__; A._abc_caches_clear() if hasattr(A,'_abc_caches_clear') else __import__('_abc')._reset_caches(A)"),
    _corner('subclasses()', 'class A: pass\nclass B(A): pass\ndef value(): return len(A.__subclasses__())', 'class D(A): pass'),
    _corner('__name__', 'def f(): pass\ndef value(): return len(f.__name__)', "f.__name__='abcdef'"),
    _corner('__doc__', "def f(): 'abc'\ndef value(): return len(f.__doc__)", "f.__doc__='abcdef'"),
    _corner('class __name__', 'class C: pass\ndef value(): return len(C.__name__)', "C.__name__='abcdef'"),
    _corner('annotations', 'class C:\n  n: int\ndef value(): return len(C.__annotations__)', "C.__annotations__['m']=int"),
    _corner('func annotations', 'def f(a:int): pass\ndef value(): return len(f.__annotations__)', "f.__annotations__['m']=int"),
    _corner('module __dict__', 'import sys\nme=sys.modules[__name__]\nN=@V@\ndef value(): return me.N', 'N=91'),
    _corner('itertools count state', 'I=itertools.count(@V@)\ndef value(): return next(copy.copy(I))', 'next(I)'),
    _corner('dict view', "D={'a':@V@}\nV=D.values()\ndef value(): return list(V)[0]", "D['a']=91"),
    _corner('memoryview', 'B=bytearray([@V@])\nM=memoryview(B)\ndef value(): return M[0]', 'B[0]=91'),
    _corner('bound builtin', 'L=[@V@]\nG=L.__getitem__\ndef value(): return G(0)', 'L[0]=91'),
    _corner('dict.get bound', "D={'n':@V@}\nG=D.get\ndef value(): return G('n')", "D['n']=91"),
    _corner('str join map', "L=['@V@']\ndef value(): return int(''.join(L))", "L.append('1')"),
    _corner('frozenset order', 'S={3,4}\ndef value(): return max(S)', 'S.add(91)'),
    _corner('mutable tuple', 'T=([@V@],)\ndef value(): return T[0][0]', 'T[0][0]=91'),
    _corner('partial kw', 'def f(a,*,b): return a+b\nP=functools.partial(f,b=6)\ndef value(): return P(1)', "P.keywords['b']=90"),
    _corner('method on partial attr', 'P=functools.partial(int)\nP.n=@V@\ndef value(): return P.n', 'P.n=91'),
    _corner('wraps attr chain', 'def d(f):\n  @functools.wraps(f)\n  def w(*a): return w.calls+f(*a)\n  w.calls=3\n  return w\n@d\ndef h(): return 4\ndef value(): return h()', 'h.calls=87'),
    _corner('global decl in helper', 'N=@V@\ndef bump():\n  global N\n  N=91\ndef value(): return N', 'bump()'),
    _corner('del global', 'import builtins\nmax=lambda *a:@V@\ndef value(): return max(3,4)', 'del max'),
    _corner('class body exec', 'def value():\n  class Q:\n    a=N\n    b=[N for _ in range(1)]\n  return Q.a+Q.b[0]\nN=3', 'N=45'),
    _corner('super().__init__ param', 'class A:\n  def __init__(s,n): s.n=n\nclass B(A):\n  def __init__(s): super().__init__(D)\nD=@V@\ndef value(): return B().n', 'D=91', "A.__init__=lambda s,n: setattr(s,'n',92)"),
    _corner('explicit super args', 'class A:\n  def f(s): return @V@\nclass B(A):\n  def g(s): return super(B,s).f()\nO=B()\ndef value(): return O.g()', 'A.f=lambda s:91'),
    _corner('type(self) call', 'class A:\n  n=@V@\n  def make(s): return type(s)()\nO=A()\ndef value(): return O.make().n', 'A.n=91'),
    _corner('mro entries/generic alias', "class A(typing.Generic[typing.TypeVar('T')]):\n  n=@V@\nX=A[int]\ndef value(): return X.n", 'A.n=91'),
    _corner('protocol', 'class P(typing.Protocol):\n  n:int\nclass C:\n  n=@V@\nO=C()\ndef f(p:P): return p.n\ndef value(): return f(O)', 'C.n=91'),
    _corner('newtype', "U=typing.NewType('U',int)\nO=U(@V@)\ndef value(): return O", 'O=U(91)'),
    _corner('walrus/comprehension global', 'N=@V@\ndef value(): return [y for _ in range(1) if (y:=N)][0]', 'N=91'),
    _corner('default arg expr of nested', 'N=@V@\ndef value():\n  def f(a=N): return a\n  return f()', 'N=91'),
    _corner('try/except name', 'class E1(Exception): pass\nEXC=E1\ndef boom(): raise E1\ndef value():\n  try: boom()\n  except EXC: return @V@\n  except Exception: return 8', 'EXC=KeyError'),
    _corner('assert msg', 'N=@V@\ndef value():\n  assert N>0\n  return N', 'N=91'),
    _corner('constant default class', 'class Cfg:\n  tile=@V@\ndef h(c=Cfg): return c.tile\ndef value(): return h()', 'Cfg.tile=91', "h.__defaults__=(type('Q',(),{'tile':92}),)"),
    _corner('object in set', 'class C:\n  n=@V@\nS={C()}\ndef value(): return next(iter(S)).n', 'next(iter(S)).n=91'),
    _corner('deque of objects', 'class C:\n  n=@V@\nS=collections.deque([C()])\ndef value(): return S[0].n', 'S[0].n=91'),
    _corner('dict key objects', 'class C:\n  n=@V@\nS={C():1}\ndef value(): return next(iter(S)).n', 'next(iter(S)).n=91'),
    _corner('fraction in list', 'import fractions\nL=[fractions.Fraction(@V@)]\ndef value(): return int(L[0])', 'L[0]=fractions.Fraction(91)'),
    _corner('ns in ns', 'O=types.SimpleNamespace(a=types.SimpleNamespace(n=@V@))\ndef value(): return O.a.n', 'O.a.n=91'),
    _corner('int32 global', 'C=fx.Int32(@V@)\ndef value(): return int(C)', 'C=fx.Int32(91)'),
    _corner('fx struct const', 'T=fx.Float32\ndef value(): return T.width', 'T=fx.Float64'),
    _corner('layout global', 'import flydsl.expr as F\nL=(4,@V@)\ndef value(): return L[1]', 'L=(4,91)'),
    _corner('str subclass eq', "class S(str):\n  def __eq__(s,o): return K\n  __hash__=str.__hash__\nK=True\nO=S('a')\ndef value(): return @V@ if O=='b' else 8", 'K=False'),
    _corner('slots+dict', "class A:\n  __slots__=('n','__dict__')\nO=A();O.n=@V@;O.m=0\ndef value(): return O.n+O.m", 'O.m=84', 'O.n=8'),
    _corner('copyreg-less obj in list global by computed', "class A: pass\nO=A();O.x1=@V@\nI=1\ndef value(): return getattr(O,f'x{I}')", 'O.x1=91', 'O.x2=92;I=2'),
    _corner('operator.itemgetter alias', "G=operator.itemgetter('n')\nD={'n':@V@}\ndef value(): return G(D)", "D['n']=91"),
    _corner('np.random', 'np.random.seed(@V@)\ndef value():\n  s=np.random.get_state()\n  r=np.random.randint(10**6)\n  np.random.set_state(s)\n  return r', 'np.random.seed(91)'),
    _corner('rng', 'R=np.random.default_rng(@V@)\ndef value(): return int(copy.deepcopy(R).integers(10**6))', 'R.random()'),
)
