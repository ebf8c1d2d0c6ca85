"""The table of options, and everything derived from it.

In: the rows of `table` (settings of a run and of training) and of `evaluation_commands` and `record_commands` (options
of one command). Out: the keyword arguments of the public functions (`Settings`), the parsers of the command line, the
specification of a run, and the reference page docs/cli.md.
May import: studies, run, report, tasks, models, core. The table and the parsers import core only.
"""
