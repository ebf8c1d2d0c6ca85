"""Models behind HTTP: servers with OpenAI's endpoints, servers' own endpoints, and providers' own APIs.

In: requests. Out: answers as they arrive. May import: `assay.core`, and of `assay.models` what is below the model
families: `loading`, `tokens`, `download`. aiohttp and tokenizers are imported only inside functions. From top to
bottom:

    providers      the servers as `--model` names; providers with an API of their own are in their dialects
    completions_model | chat_model      the `Model`s, with what they share in `http_model`
    joint_scoring | chat_choices        choices of one token by one request; letters by first tokens of a chat answer
    servers        what a server is: its limits, its tokenizer, and the probe of its log-likelihoods
    dialects       one file per form of request: its body, the reading of its answer, its limits
    provider       a provider as a value: its dialect, address and headers
    connection     the client in its thread, for synchronous code
    batches        many requests in one file, collected later
    traffic        one request: retries, pauses, limits of rates, parameters that a model refuses
    spending       tokens, prices and the budget
    exchange | http_arguments           values
"""
