"""The child of a search: holds one call, compiles and times configurations of it on request."""

from __future__ import annotations

import pickle
import time
from typing import Any, cast

from ...compiler.jit_function import JitFunction
from ...llvm.worker_process import Frame, Header, serve
from ..candidate import Config
from ..limits import uses_of
from ..ranking import predicted_ms
from ..runner import Launcher, Policy, Runner, WrongResult
from ..tuner import Autotuner
from .images import FunctionPlace, rebuild


class _Session:
    """The call that was opened."""

    def __init__(self, request: Header, blobs: list[bytes]):
        place = FunctionPlace(request["module"], request["qualname"], request["file"])
        found = place.find()
        args, kwargs = cast("tuple[tuple[object, ...], dict[str, object]]", rebuild(blobs[0], blobs[1:]))
        self.args, self.kwargs = args, kwargs
        if isinstance(found, Autotuner):
            tuner = found
            self.launcher, self.policy = tuner.launcher, tuner.policy
        elif isinstance(found, JitFunction):
            self.launcher, self.policy = Launcher(cast("JitFunction[Any]", found)), Policy()
        else:
            raise TypeError(f"{place.module}:{place.qualname} is no tuned function, it is {found!r}")
        self._runner: Runner | None = None

    @property
    def runner(self) -> Runner:
        """Made when something is run: compiling has specs for arrays."""
        if self._runner is None:
            self._runner = Runner(self.launcher, self.policy, self.args, self.kwargs)
            self._runner.keep_arrays()
        return self._runner


_session: list[_Session] = []


def answer(request: Header, blobs: list[bytes]) -> Frame:
    """Open a call, or do something with a configuration of it."""
    if request["do"] == "open":
        _session[:] = [_Session(request, blobs)]
        return {}, []
    session = _session[0]
    config = cast(Config, pickle.loads(blobs[0]))
    if request["do"] == "compile":
        start = time.perf_counter()
        artifact = session.launcher.artifact(config, session.args, session.kwargs)
        if artifact is None:
            return {"resources": {}, "seconds": 0.0, "predicted": None}, []
        seconds = time.perf_counter() - start
        predicted = predicted_ms(session.launcher, config, session.args, session.kwargs)
        reply = {"resources": uses_of(artifact), "seconds": seconds, "predicted": predicted, "key": artifact.key}
        return reply, [artifact.to_bytes()] if request.get("send") else []
    runner = session.runner
    if request["do"] == "reference":
        runner.set_reference(config)
        return {}, []
    try:
        if request["compare"]:
            runner.compare(config)
        runner.restore_all()
        timing = runner.time(config)
    except WrongResult as error:
        return {"error": "WrongResult", "message": str(error), "text": str(error)}, []
    return {"times": list(timing.times), "method": timing.method}, []


def main() -> None:
    """Entry point of the child."""
    serve(answer)
