"""Run examples as `python -m asyncio` does: statement by statement, with `await` at the top level."""

import ast
import asyncio
import codeop
import doctest
import inspect
import re


class Console:
    """A console with one event loop for all statements.

    >>> with Console() as console:
    ...     console.run("import asyncio\\nprint(await asyncio.sleep(0, 'slept'))\\n")
    slept
    """

    def __init__(self, names=None):
        self.names = {} if names is None else names
        self._runner = asyncio.Runner()
        self._complete = codeop.CommandCompiler()
        self._complete.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._runner.close()

    def run(self, text):
        """Feed the lines of a text, as if they were pasted.

        Raises SyntaxError where a line completes no statement.
        """
        waiting = []
        for line in [*text.splitlines(), ""]:
            waiting.append(line)
            if code := self._complete("\n".join(waiting), "<example>", "single"):
                waiting.clear()
                self._run(code)
        assert not "".join(waiting).strip(), f"unfinished: {waiting}"

    def statement(self, source):
        """Run one statement of a docstring, however many lines it has."""
        self._run(compile(source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))

    def _run(self, code):
        running = eval(code, self.names)
        if inspect.iscoroutine(running):
            self._runner.run(running)


class Docstrings(doctest.DocTestParser):
    """Parse a docstring's examples, and hand those that await to a console."""

    def parse(self, string, name="<string>"):
        """Return the parts of a docstring, with each example in a form that doctest can run."""
        parts = super().parse(string, name)
        for part in parts:
            if isinstance(part, doctest.Example) and re.search(
                r"\bawait\b|\basync (with|for)\b", part.source
            ):
                part.source = f"_console.statement({part.source!r})\n"
        return parts


def run_docstrings(module):
    """Run the examples of a module's docstrings and return a report of those that fail, "" where none does."""
    report = []
    for test in doctest.DocTestFinder(parser=Docstrings(), exclude_empty=True).find(module):
        with Console(test.globs) as console:
            test.globs["_console"] = console
            runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
            runner.run(test, out=report.append, clear_globs=False)
    return "".join(report)
