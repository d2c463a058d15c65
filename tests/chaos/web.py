"""The web server of the site: `python -m tests.chaos.web PORT`. It keeps no log of addresses."""

from __future__ import annotations

import sys
from typing import Any

from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application


class Silent(WSGIRequestHandler):
    """A link is in the address of its page: an access log of them would be the site's own leak."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


def main() -> None:
    application = get_wsgi_application()
    server = ThreadedWSGIServer(("127.0.0.1", int(sys.argv[1])), Silent)
    server.daemon_threads = True
    server.set_app(application)
    server.serve_forever()


if __name__ == "__main__":
    main()
