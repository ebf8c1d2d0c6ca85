"""Serving: a model behind OpenAI's HTTP interface, on loopback.

In: a model's name and arguments. Out: a server that answers completions, chat and tokenisation until a signal ends it.
May import: `assay.api` and everything below it. aiohttp is imported only inside functions. From top to bottom:

    server              opens the model, listens, ends cleanly
    routes              paths and their handlers; `access` decides who may ask
    completions | chat | token_routes      one endpoint each: body in, answer out
    token_answers | streaming              log-probabilities as JSON; answers in pieces
    service             what handlers need of the model, awaited
    worker              the thread of the model: everything that waits becomes one batch
    decoding | fields | api_errors         bodies read field by field; errors in OpenAI's form
"""
