"""An e-mail backend that puts each message into a file of its own, openable by any mail program.

Django's own file backend appends the messages of a connection to one log.
"""

import os
import tempfile
from collections.abc import Sequence
from email.utils import make_msgid
from pathlib import Path

from django.conf import settings
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend
from django.utils import timezone


class EmailBackend(BaseEmailBackend):
    """Write each message to ``MAIL_DIR`` as ``<time>-….eml``."""

    def send_messages(self, email_messages: Sequence[EmailMessage]) -> int:
        folder = Path(settings.MAIL_DIR)
        folder.mkdir(parents=True, exist_ok=True)
        for message in email_messages:
            # Django would make one with this machine's name, and may ask the network for that.
            message.extra_headers.setdefault("Message-ID", make_msgid(domain="example.com"))
            prefix = f"{timezone.now():%Y%m%d-%H%M%S}-"
            handle, path = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=folder)
            with os.fdopen(handle, "wb") as file:
                # Mail's line ends, whichever ones this version of Django writes.
                file.write(b"\r\n".join(message.message().as_bytes().splitlines()) + b"\r\n")
            # Renamed when complete, so that whoever watches the folder never reads half a mail.
            Path(path).rename(Path(path).with_suffix(".eml"))
        return len(email_messages)
