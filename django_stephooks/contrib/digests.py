"""Short texts that stand for exactly one value: what an answer is bound to."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any


def digest(*values: Any) -> str:
    """16 hexadecimal digits, the same in each process, whatever the order of keys."""
    text = json.dumps(values, sort_keys=True, default=repr)
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def key_of(label: str, *exactly: Any) -> str:
    """`label` tells people what it is; the rest that an answer to one thing is not taken for another's."""
    return f"{re.sub(r'[^A-Za-z0-9_.:-]', '_', label)[:60]}-{digest(*exactly)}"
