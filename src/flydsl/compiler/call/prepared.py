"""`PreparedLaunch`: a call whose arguments are in place and stay there."""

from __future__ import annotations

from inspect import Parameter
from typing import TYPE_CHECKING

from ...errors import DSLTypeError
from ...expr.gpu import Stream
from .arguments import Argument, StreamArgument, adapt
from .placement import check_places

if TYPE_CHECKING:
    from ..frontend.signature import Signature
    from .bind import BoundCall
    from .dispatch import LoadedFunction

_STREAM = "stream"
_FIXED = (int, float, bool, str, type(None))
"""Objects that stay what they are. The memory of an array that is given again may be another by now."""


class PreparedLaunch:
    """A call with its arguments in place: `launch()` replays it, `update()` replaces arguments of the same signature.

    >>> @flyc.kernel
    ... def scale_kernel(x: fx.Tensor, by: fx.Float32):
    ...     x[fx.thread_idx.x] = x[fx.thread_idx.x] * by
    >>> @flyc.jit
    ... def scale(x: fx.Tensor, by: fx.Float32):
    ...     scale_kernel(x, by).launch(grid=1, block=4)
    >>> x = np.arange(4, dtype="f4")
    >>> prepared = flyc.compile(scale, x, 2.0, run=False).prepare(x, 2.0)
    >>> prepared.launch()
    >>> prepared.update(by=10.0)
    >>> prepared.launch()
    >>> x
    array([ 0., 20., 40., 60.], dtype=float32)
    """

    def __init__(
        self,
        loaded: LoadedFunction,
        call: BoundCall,
        signature: Signature,
        stream: object = None,
        *,
        method: bool = False,
    ):
        self._loaded = loaded
        self._signature = signature
        # The object of a method is compiled in: no caller gives it.
        self._parameters = list(signature.parameters)[1 if method else 0 :]
        self._constants = {name: value for name, value in call.arguments.items() if name not in call.adapted}
        self._arguments = dict(call.adapted)
        self._given: dict[str, object] = {}
        self._stream_name = next((n for n, a in call.adapted.items() if isinstance(a, StreamArgument)), _STREAM)
        if stream is not None:
            self._arguments[self._stream_name] = adapt(_STREAM, stream, Stream)
        self._native = loaded.quick
        self._pack()

    def _pack(self) -> None:
        """Storage of its own for the arguments as they are now."""
        self._packed = self._loaded.pack(list(self._arguments.values()))
        self._address = self._packed.address
        self._queued = self._loaded.is_queued(self._packed)

    def launch(self, *args: object) -> None:
        """Run the prepared call, with new arguments if any are given: all of them, in order."""
        if args:
            self._replace(args)
        if self._queued or not self._loaded.runtime.alive:
            self._loaded.run(self._packed)
            return
        status = self._native(self._address)
        if status:
            self._loaded.launch_failed(status, self._address, self._packed.record)

    def _replace(self, args: tuple[object, ...]) -> None:
        names, known = self._parameters, self._signature.inspected.parameters
        if len(args) > len(names):
            raise DSLTypeError(f"the prepared call takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
        left = [n for n in names[len(args) :] if n not in self._constants and known[n].default is Parameter.empty]
        if left:
            raise DSLTypeError(f"the prepared call needs {', '.join(left)} as well; update() replaces some alone")
        changed = {
            n: v
            for n, v in zip(names, args, strict=False)
            if type(v) not in _FIXED or n not in self._given or self._given[n] is not v
        }
        self.update(**changed)
        self._given.update(changed)

    def update(self, **values: object) -> None:
        """Replace arguments by name; what is compiled in (layouts that are static, constexprs) cannot change."""
        made: dict[str, Argument] = {}
        for name, value in values.items():
            if name in self._constants:
                if type(value) is type(self._constants[name]) and value == self._constants[name]:
                    continue
                raise DSLTypeError(f"parameter '{name}' is compiled in as {self._constants[name]!r}, got {value!r}")
            made[name] = self._adapted(name, value)
        check_places(made, self._loaded.runtime)
        self._arguments.update(made)
        for name in made:
            self._given.pop(name, None)
        if self._queued or any(isinstance(a, StreamArgument) for a in made.values()):
            self._pack()  # a launch that is queued still reads the storage it has
        else:
            self._loaded.refill(self._packed, list(self._arguments.values()), made.values())

    def _adapted(self, name: str, value: object) -> Argument:
        if name == self._stream_name:
            return adapt(name, value, Stream)
        old = self._arguments.get(name)
        if old is None:
            known = ", ".join({*self._arguments, self._stream_name})
            raise DSLTypeError(f"the prepared call has no run-time argument '{name}'; it has {known}")
        new = adapt(name, value, self._signature.parameters[name].annotation)
        new.check()
        if new.__cache_signature__() != old.__cache_signature__():
            raise DSLTypeError(
                f"argument '{name}' was prepared as {old.__cache_signature__()}, got {new.__cache_signature__()}; "
                "compile for it and prepare again"
            )
        return new
