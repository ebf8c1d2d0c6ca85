"""Training: lessons and a model in, a folder with a new model out.

Takes `TrainingExample`s and `FitSettings`; gives a `FitReport` and a folder that `hf` opens. transformers' Trainer,
accelerate and peft do the work. May import `assay.core` and its neighbours in `assay.models`; the model classes' `fit`
calls it.
"""
