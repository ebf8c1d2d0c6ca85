"""A task as a class: each document asks for a text and for a log-likelihood."""

from lm_eval.api.instance import Instance
from lm_eval.api.metrics import mean
from lm_eval.api.task import ConfigurableTask


class TextAndLikelihood(ConfigurableTask):
    VERSION = 3

    def __init__(self, config=None):
        own = {key: value for key, value in config.items() if key != "class"}
        super().__init__(config={**own, "metadata": {"version": self.VERSION}})

    def construct_requests(self, doc, ctx, **kwargs):
        kwargs.pop("apply_chat_template", None)
        kwargs.pop("chat_template", None)
        settings = {"until": ["\n", "."], "max_gen_toks": 12}
        return [
            Instance(request_type="generate_until", doc=doc, arguments=(ctx, settings), idx=0, **kwargs),
            Instance(request_type="loglikelihood", doc=doc, arguments=(ctx, " unknown"), idx=1, **kwargs),
        ]

    def process_results(self, doc, results):
        text, (total, is_greedy) = results
        return {"said": float(text.strip() == doc["end"]), "doubt": total, "gave_up": bool(is_greedy)}

    def aggregation(self):
        return {"said": mean, "doubt": min, "gave_up": mean}

    def higher_is_better(self):
        return {"said": True, "doubt": False, "gave_up": False}
