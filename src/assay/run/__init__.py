"""The conductor of a run: resolve, build, plan, execute, score, aggregate, record; also reopen, rescore, fine-tune.

In: a run specification, with a schedule and analyses from above. Out: a result. May import: lm_eval_shim, tasks,
models, store, scoring, data, stats, guard, core.
"""
