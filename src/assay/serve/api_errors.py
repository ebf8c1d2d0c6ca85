"""Errors in OpenAI's form: a status, and a JSON object that names the parameter at fault."""

from __future__ import annotations

from typing import Any

from assay.core.responses import Failure
from assay.core.secrets import redacted_text

INVALID = "invalid_request_error"
TOO_LONG = "context_length_exceeded"
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error"}
# Failures of a request by itself; others are the server's.
_OF_THE_REQUEST = frozenset({"too_long", "unsupported", "empty"})


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: the HTTP status.
        message: what is wrong, and what was expected.
        parameter: the field at fault.
        code: a short name for programs.
    """

    def __init__(self, status: int, message: str, parameter: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = redacted_text(message)
        self.parameter = parameter
        self.code = code

    def body(self) -> dict[str, Any]:
        """The error as JSON data."""
        kind = _TYPES.get(self.status, INVALID if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.parameter, "code": self.code}}


def refused(message: str, parameter: str | None = None, code: str | None = None) -> ApiError:
    """The error for a request that cannot be answered as it is."""
    return ApiError(400, message, parameter, code)


def failed(failure: Failure) -> ApiError:
    """The error for a request that the model could not answer."""
    code = TOO_LONG if failure.kind == "too_long" else failure.kind
    return ApiError(400 if failure.kind in _OF_THE_REQUEST else 500, failure.message, code=code)
