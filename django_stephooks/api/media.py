"""What goes over the wire: JSON in, of limited size and nothing that JSON does not have, and JSON out."""

from __future__ import annotations

import json
from typing import Any

from django.http import UnreadablePostError
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from django_stephooks import codec
from django_stephooks.conf import app_settings

# What may stand around the largest payload: the other members of the body, spaces.
ROOM = 16 * 1024


class BodyTooLarge(APIException):
    status_code = 413

    def __init__(self) -> None:
        super().__init__(f"The body may have at most {max_body_bytes():,} bytes.")


def max_body_bytes() -> int:
    return int(app_settings.MAX_PAYLOAD_BYTES) + ROOM


def refuse_large_body(request: Request) -> None:
    """BodyTooLarge by what the header says, before anybody reads the body."""
    try:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return
    if length > max_body_bytes():
        raise BodyTooLarge


class StrictJSONParser(BaseParser):
    """JSON in UTF-8. SerializationError names the path of NaN, Infinity and what is nested too deep."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        limit = max_body_bytes()
        try:
            body = stream.read(limit + 1)
        except UnreadablePostError:
            raise ParseError("The body ended before it was complete.") from None
        if len(body) > limit:
            raise BodyTooLarge
        try:
            data = json.loads(body.decode("utf-8"))
        except RecursionError:
            raise ParseError("The body is nested too deep.") from None
        except UnicodeDecodeError:
            raise ParseError("The body is not UTF-8.") from None
        except json.JSONDecodeError as error:
            raise ParseError(f"The body is not JSON: {error}.") from None
        except ValueError:
            # Python reads only so many digits of an integer.
            raise ParseError("The body holds a number with too many digits.") from None
        # Python's parser takes NaN, and makes Infinity of 1e999.
        codec.dumps_plain(data, root="body")
        return data


class SafeJSONRenderer(JSONRenderer):
    """JSON in ASCII: lone surrogates, which have no bytes, are written as JSON's escapes."""

    ensure_ascii = True
    strict = True

    def get_indent(self, accepted_media_type: Any, renderer_context: Any) -> None:
        return None
