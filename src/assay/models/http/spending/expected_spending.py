"""What requests to a model behind HTTP would cost, estimated from their texts before any is sent.

In: requests of a plan, the model's arguments. Out: an `ExpectedSpending`; the price that the arguments lead to.
"""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.protocols import ExpectedSpending
from assay.core.requests import Generation, Loglikelihood, Prompt, Request, untruncated_prompt
from assay.models.http.http_arguments import HttpArguments
from assay.models.http.spending.prices import Price, find_price
from assay.models.http.spending.usage import BYTES_PER_TOKEN, Size


def price_of(arguments: HttpArguments) -> Price | None:
    """The price of a model: the user's own, else the table's; None if none is known."""
    given = None
    if arguments.price_in is not None and arguments.price_out is not None:
        given = (arguments.price_in, arguments.price_out)
    return find_price(arguments.base_url, arguments.model, given, arguments.batch_api)


def expected_spending(requests: Sequence[Request], usual_limit: int, price: Price | None) -> ExpectedSpending:
    """What requests would cost.

    Args:
        requests: the requests.
        usual_limit: most new tokens of a generation that sets none.
        price: dollars per million tokens; None if unknown.
    """
    sizes = [_size(request, usual_limit) for request in requests]
    return ExpectedSpending(
        requests=len(sizes),
        prompt_tokens=sum(size.prompt for size in sizes),
        new_tokens=sum(size.new for size in sizes),
        dollars=None if price is None else sum(map(price.most, sizes)),
        price="" if price is None else f"${price.input:g} in, ${price.output:g} out per million tokens; {price.source}",
    )


def _size(request: Request, usual_limit: int) -> Size:
    if isinstance(request, Generation):
        limit = usual_limit if request.max_tokens is None else request.max_tokens
        return Size(_tokens(request.prompt), limit)
    if isinstance(request, Loglikelihood):
        return Size(_tokens(request.prompt) + _tokens(request.continuation), 1)
    return Size(_tokens(request.text), 1)


def _tokens(prompt: Prompt) -> int:
    whole = untruncated_prompt(prompt)
    texts = [whole] if isinstance(whole, str) else [turn.text for turn in whole]
    return sum(len(text.encode("utf-8", "surrogatepass")) // BYTES_PER_TOKEN + 1 for text in texts)
