"""Fine-tuning: training examples and a parent model in, a folder with a new model out.

In: `TrainingExample`s and `FitSettings`. Out: a `FitReport` and a folder that `hf` opens. Uses transformers'
Trainer, accelerate and peft. Called by the `fit` method of the models in `hf`; recipes of one family are in that
family's folder.
"""
