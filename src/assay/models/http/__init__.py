"""Models behind HTTP: servers with OpenAI's endpoints, servers' own endpoints, and providers' own APIs.

In: requests. Out: answers as they arrive. May import: `assay.core`, and of `assay.models` what is below the model
families: `loading`, `tokens`, `download`. aiohttp and tokenizers are imported only inside functions. From top to
bottom:

    providers             the servers as `--model` names; providers with an API of their own are in their dialects
    completions_model | chat_model      the `Model`s, with what they share in `http_model`
    joint_scoring         which requests score some texts: choices of one token share one
    server_probe | probed_forms         proves log-likelihoods before they are used; tries every form for `assay probe`
    chat_choices          letters of multiple choice by the first tokens of a chat answer
    server_facts          what a server says of itself: kind, models, limits
    find_tokenizer        text to token ids, from a folder's tokenizer.json (`local_tokenizer`) or by `server_tokenizer`
    dialects              one file per form of request: its body, the reading of its answer, its limits
    provider              a provider as a value: its dialect, address and headers
    connection            the client in its thread, for synchronous code
    workers | batches     send many exchanges: one by one, or as batches (`batch_envelopes`, `batch_records`)
    client                sends one exchange with retries, pauses and timeouts, within the budget
    pacing | replies | refused_parameters      how many requests at once; what an answer means; what a model refuses
    spending | expected_spending      the budget, and what was or would be spent; `usage`, `prices`, `allowances`
    exchange | api_key | http_arguments | loop_thread      values, and the thread of the event loop
"""
