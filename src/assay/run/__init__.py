"""The conductor: resolve, pose, plan, execute, score, aggregate. The only room that knows the others.

Takes a run specification, gives a result. May import: tasks, models, plan, store, scoring, stats, core.
"""
