"""@workflow and @step: what a project writes; `.start()` begins a run of it.

Both give a callable object in place of the function. Outside a run, calling it calls the function
and nothing else, so it can be tested like any function.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, overload

from asgiref.sync import markcoroutinefunction, sync_to_async

from . import registry
from .conf import app_settings
from .durations import parse_duration
from .engine.frames import current_frame
from .engine.retries import RetryPolicy
from .streaming import aemitting, emitting

if TYPE_CHECKING:
    from .models import Run

P = ParamSpec("P")
R = TypeVar("R")


class Definition(Generic[P, R]):
    """What `@workflow` and `@step` have in common: a name, a function, and how to start a run of it."""

    kind = "workflow"
    queue: str | None = None
    max_recoveries: int | None = None
    own_job_timeout: timedelta | None = None

    def __init__(self, function: Callable[P, R], *, name: str | None) -> None:
        if not inspect.isfunction(function):
            raise TypeError(
                f"@{self.kind} marks a plain function; {function!r} is a {type(function).__name__}."
            )
        self.function = function
        self.origin = f"{function.__module__}.{function.__qualname__}"
        self.name = self._checked_name(name) if name is not None else self.origin
        self.signature = inspect.signature(function)
        self.is_async = inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
        functools.update_wrapper(cast(Any, self), function)
        if self.is_async:
            markcoroutinefunction(cast(Any, self))

    def _checked_name(self, name: Any) -> str:
        if not isinstance(name, str) or not name or len(name) > 100 or not name.isprintable() or "/" in name:
            raise ValueError(
                f"{name!r} is not a name for a {self.kind}: 1 to 100 printable characters, without '/'."
            )
        return name

    @property
    def is_nested(self) -> bool:
        """A lambda or a function inside a function: another process can not find it by name."""
        return "<locals>" in self.function.__qualname__ or self.function.__name__ == "<lambda>"

    @property
    def job_timeout(self) -> timedelta:
        """How long one turn on a run of it may take."""
        return self.own_job_timeout or parse_duration(app_settings.JOB_TIMEOUT, name="JOB_TIMEOUT")

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name}>"

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Run:
        """Begin a run; a worker takes it once the surrounding transaction has committed.

        Arguments are stored as JSON (see `codec`): TypeError if they do not fit the function's
        signature, SerializationError if one can not be stored.
        """
        return Starter(definition=self).start(*args, **kwargs)

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Run:
        """`start()` for async code."""
        return await Starter(definition=self).astart(*args, **kwargs)

    def using(
        self,
        *,
        queue: str | None = None,
        key: str | None = None,
        subject: Any = None,
        started_by: Any = None,
    ) -> Starter[P, R]:
        """The same to start, with options for this run.

        `queue`: a name in RQ_QUEUES. `key`: an idempotency key; starting again with it returns the
        same run, whatever its status. `subject`: the model instance that the run is about.
        `started_by`: a user.
        """
        return Starter(definition=self).using(queue=queue, key=key, subject=subject, started_by=started_by)

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The call's arguments by name, as a run stores them ("*" holds those that have no name)."""
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.name}{self.signature} can not be started like this: {error}.") from None
        kinds = {parameter.kind for parameter in self.signature.parameters.values()}
        if kinds & {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL}:
            return {"*": list(bound.args), **bound.kwargs}
        named: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            else:
                named[name] = value
        return named


class Workflow(Definition[P, R]):
    """A plain function that calls steps. Made by `@workflow`."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        queue: str | None = None,
        max_recoveries: int | None = None,
        job_timeout: Any = None,
    ) -> None:
        super().__init__(function, name=name)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"@workflow can not mark the generator function {function.__qualname__}(): only a step "
                "emits what it yields."
            )
        if self.is_nested:
            raise ValueError(
                f"@workflow can not mark {self.origin}: a worker could not find a lambda or a function "
                "inside a function by its name. Define it at the top level of a module."
            )
        self.queue = queue
        self.max_recoveries = max_recoveries
        if job_timeout is not None:
            self.own_job_timeout = parse_duration(job_timeout, name="job_timeout")
        registry.register(self)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return cast(R, self.function(*args, **kwargs))


class Step(Definition[P, R]):
    """A retryable unit of work, recorded once. Made by `@step`."""

    kind = "step"

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        max_retries: int = 3,
        retry_delay: Any = "exponential",
        timeout: Any = None,
    ) -> None:
        super().__init__(function, name=name)
        self.call_name = name or function.__name__
        self.retries = RetryPolicy.parse(max_retries, retry_delay)
        self.timeout = None if timeout is None else parse_duration(timeout)
        # A step inside a function can be called in a run, but no worker could find it to start it.
        if not self.is_nested:
            registry.register(self)

    @property
    def body(self) -> Callable[P, Any]:
        """What a call does: that of a generator emits what it yields, and returns what it returns."""
        function: Any = self.function
        if inspect.isgeneratorfunction(function):
            return emitting(function)
        return aemitting(function) if inspect.isasyncgenfunction(function) else function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        frame = current_frame()
        if frame is None:
            return cast(R, self.body(*args, **kwargs))
        # Imported late: a module with workflows may be imported before models may.
        from .engine import calls

        return cast(R, calls.call_step(frame, self, args, kwargs))


@dataclass(frozen=True, kw_only=True)
class Starter(Generic[P, R]):
    """A workflow or step with the options of the run to be; made by `.using()`."""

    definition: Definition[P, R]
    queue: str | None = None
    key: str | None = None
    subject: Any = None
    started_by: Any = None

    def using(self, **options: Any) -> Starter[P, R]:
        return dataclasses.replace(
            self, **{name: value for name, value in options.items() if value is not None}
        )

    def start(self, *args: P.args, **kwargs: P.kwargs) -> Run:
        # Models may not be imported before the app registry is ready, and this module is.
        from .services import runs

        definition = self.definition
        if definition.is_nested:
            raise ValueError(
                f"{definition.origin} can not be started: a worker could not find a lambda or a function "
                "inside a function by its name. It can be called in a run."
            )
        # Asked through the registry, so that what could not be found later is refused now.
        registry.get(definition.name)
        return runs.start(
            definition.name,
            definition.bind(args, kwargs),
            queue=self.queue or definition.queue,
            max_recoveries=definition.max_recoveries,
            key=self.key,
            subject=self.subject,
            started_by=self.started_by,
        )

    async def astart(self, *args: P.args, **kwargs: P.kwargs) -> Run:
        return await sync_to_async(self.start)(*args, **kwargs)


@overload
def workflow(function: Callable[P, R], /) -> Workflow[P, R]: ...
@overload
def workflow(
    *,
    name: str | None = None,
    queue: str | None = None,
    max_recoveries: int | None = None,
    job_timeout: Any = None,
) -> Callable[[Callable[P, R]], Workflow[P, R]]: ...
def workflow(function: Any = None, /, **options: Any) -> Any:
    """Mark a plain function, `def` or `async def`, as a workflow.

    `name`: default is its dotted path; runs find their code by it, so give one before you move the
    function. `queue`: a name in RQ_QUEUES. `max_recoveries`: how many crashed turns in a row are
    made good. `job_timeout`: how long one turn may take ("10m").
    """
    return Workflow(function, **options) if function else functools.partial(Workflow, **options)


@overload
def step(function: Callable[P, AsyncGenerator[Any, Any]], /) -> Step[P, Coroutine[Any, Any, None]]: ...
@overload
def step(function: Callable[P, Generator[Any, Any, R]], /) -> Step[P, R]: ...
@overload
def step(function: Callable[P, R], /) -> Step[P, R]: ...
@overload
def step(
    *,
    name: str | None = None,
    max_retries: int = 3,
    retry_delay: Any = "exponential",
    timeout: Any = None,
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(function: Any = None, /, **options: Any) -> Any:
    """Mark a plain function, `def` or `async def`, as a step.

    A function that yields is one too: a call of it emits each value (see `emit`), and returns what the
    function returns; `async def` functions that yield can return nothing.

    `max_retries=3` means four attempts. `retry_delay`: "exponential" (1 s, 2 s, 4 s … up to an
    hour), "30s", or a list such as [1, 5, 30]. `timeout`: how long one attempt may take.
    """
    return Step(function, **options) if function else functools.partial(Step, **options)
