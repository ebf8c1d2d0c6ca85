"""Models behind HTTP: servers and providers with OpenAI's completions and chat completions.

In: requests. Out: answers as they arrive. May import: `assay.core`, and of `assay.models` what is below the model
families: `loading`, `tokens`, `download`. aiohttp and tokenizers are imported only inside functions. From top to
bottom:

    http_model            the `Model`: opens a server, encodes requests, streams answers
    server_probe          proves that a server's log-likelihoods are right before they are used
    server_facts          what a server says of itself: kind, models, limits
    local_tokenizer | server_tokenizer     text to token ids, from a folder's tokenizer.json or by the server
    dialects              one file per form of request: its body, the reading of its answer, its limits
    connection            the client in its thread, for synchronous code
    workers | batches     send many exchanges: one by one, or as batches (`batch_envelopes`, `batch_records`)
    client                sends one exchange with retries, pauses and timeouts, within the budget
    pacing | replies      how many requests at once; what an answer's status, headers and body mean
    spending | expected_spending      the budget, and what was or would be spent; `usage`, `prices`, `allowances`
    exchange | api_key | http_arguments | loop_thread      values, and the thread of the event loop
"""
