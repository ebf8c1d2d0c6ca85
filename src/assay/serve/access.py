"""Who may ask: checks before every request, and errors after it.

A server on loopback can be reached by every page that a browser on this machine shows. So a request must name a host of
this machine (against DNS rebinding), must not come from another origin, and must declare JSON, which a browser sends to
another origin only with a permission that is never given. With a key, every request but `/health` must bring it.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from assay.core.secrets import redacted_text
from assay.models.http.traffic.api_key import ApiKey
from assay.serve.api_errors import ApiError

if TYPE_CHECKING:
    from aiohttp import web

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
KEY_VARIABLE = "ASSAY_SERVE_KEY"
MOST_BYTES = 64 << 20
_OPEN_PATHS = ("/health",)


@dataclass(frozen=True, slots=True)
class Access:
    """The rules of a server.

    Attributes:
        is_local: whether it listens on loopback only.
        key: the key that requests must bring; None for none.
    """

    is_local: bool
    key: ApiKey | None

    def check(self, request: web.Request) -> None:
        """Raises for a request that must not be answered."""
        host = _hostname(f"//{request.headers.get('Host', '')}")
        if self.is_local and host not in LOOPBACK:
            raise ApiError(403, "the Host header does not name this machine; expected 127.0.0.1 or localhost")
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("Host"):
            raise ApiError(403, "requests from pages of other origins are not answered")
        if self.key is not None and request.path not in _OPEN_PATHS:
            self._check_key(self.key, request.headers.get("Authorization", ""))
        if request.method == "POST" and request.content_type != "application/json":
            raise ApiError(415, f"the content type is {request.content_type}; expected application/json")

    def _check_key(self, key: ApiKey, given: str) -> None:
        wanted = key.header()["Authorization"]
        if not hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace")):
            raise ApiError(
                401, f"the key is missing or wrong; the server's is in {KEY_VARIABLE}", code="invalid_api_key"
            )


def _hostname(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # brackets that do not match
        return None


def guarded(access: Access) -> Any:
    """The middleware: checks requests, and answers errors in OpenAI's form."""
    from aiohttp import web

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            access.check(request)
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.body(), status=error.status)
        except web.HTTPRequestEntityTooLarge:
            large = ApiError(413, f"the body is larger than {MOST_BYTES >> 20} MiB; send fewer prompts per request")
            return web.json_response(large.body(), status=413)
        except web.HTTPException as found:
            methods = found.headers.get("Allow")
            text = f"{request.path} takes {methods}" if methods else f"there is no {request.path}"
            return web.json_response(ApiError(found.status, text).body(), status=found.status)
        except Exception as found:
            sys.stderr.write(f"assay serve: {request.path}: {redacted_text(f'{type(found).__name__}: {found}')}\n")
            return web.json_response(ApiError(500, "an error inside the server; it says more").body(), status=500)

    return guard
