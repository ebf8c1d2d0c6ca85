"""The command line: one file per command, no logic. May import: api, report, run, and what they show."""
